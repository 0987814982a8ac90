"""What Volcano's own controller made of the lives of some jobs, recorded as data, and whether Pumice makes the same.

The facts come from its controller (commit ed72c7c81) on a real API server, with pods played by hand: what happened, and
what an observer saw once all was quiet. Lives that deliberately go otherwise here are not among them:
`docs/differences.md` lists those. Where Volcano does not count pods (in a kill, and once a job is over), nothing was
recorded.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from pumice.admission.admit import admit
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from tests.builders import a_context
from tests.scenarios.simulation import Simulation

DATA = Path(__file__).parent / "data" / "lives.jsonl"

Fact = dict[str, Any]
LIVES = [pytest.param(fact, id=fact["id"]) for fact in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())]


@pytest.mark.parametrize("life", LIVES)
def test_lives_are_those_of_volcano(life: Fact) -> None:
    sim = Simulation(admitted_job(life["job"]), admitted=life.get("group", "Inqueue") == "Inqueue")
    for number, (what, about, seen) in enumerate(life["happened"]):
        STEPS[what](sim, **about)
        assert (number, observed(sim, seen)) == (number, seen)
    assert sim.phases == life["phases"]


def admitted_job(manifest: Fact) -> Job:
    admitted = admit(copy.deepcopy(manifest), a_context())
    assert admitted.is_good
    return admitted.job


def observed(sim: Simulation, asked: Fact) -> Fact:
    """Of what there is, that which was recorded."""
    status = sim.status
    known: Fact = {
        "phase": sim.phase,
        "conditions": [condition.status for condition in status.conditions],
        "minAvailable": status.min_available,
        "retryCount": status.retry_count,
        "counts": sim.counts,
        "tasks": sim.by_task,
        "pods": sim.pods,
    }
    return {key: known[key] for key in asked}


def chosen(sim: Simulation, pods: str) -> list[ObservedPod]:
    """Pods by their short names or tasks, with commas between them; `*` is all. None that is on its way out."""
    names = pods.split(",")
    there = [pod for pod in sim.seen if not pod.is_deleting]
    return [pod for pod in there if pods == "*" or pod.short_name in names or pod.task in names]


def run(sim: Simulation, pods: str = "*", *, ready: bool = True) -> None:
    for pod in chosen(sim, pods):
        if pod.phase is PodPhase.PENDING:
            sim.world.change_pod(sim.key, pod.name, phase=PodPhase.RUNNING, ready=ready)
    sim.rest()


def finish(sim: Simulation, pods: str = "*", code: int = 0, reason: str = "") -> None:
    for pod in chosen(sim, pods):
        if not pod.is_finished:
            sim.world.end_pod(sim.key, pod.name, ContainerEnd("main", code, reason, finished_at=sim.now))
    sim.rest()


def change(sim: Simulation, pods: str, **fields: Any) -> None:
    if "phase" in fields:
        fields["phase"] = PodPhase(fields["phase"])
    for pod in chosen(sim, pods):
        sim.change(pod.short_name, **fields)


def evict(sim: Simulation, pods: str) -> None:
    sim.evict(*(pod.short_name for pod in chosen(sim, pods)))


def edit(sim: Simulation, tasks: Mapping[str, Mapping[str, int]] | None = None, **fields: Any) -> None:
    spec = sim.job.spec
    changed = [msgspec.structs.replace(task, **(tasks or {}).get(task.name, {})) for task in spec.tasks]
    sim.update(msgspec.structs.replace(spec, tasks=changed, **fields))


def linger(sim: Simulation) -> None:
    """From now on pods that are to go take their time."""
    sim.slow = True


def release(sim: Simulation) -> None:
    sim.slow = False
    sim.let_go()


STEPS: Final[Mapping[str, Callable[..., object]]] = {
    "created": Simulation.rest,
    "run": run,
    "finish": finish,
    "change": change,
    "evict": evict,
    "edit": edit,
    "linger": linger,
    "release": release,
    "command": Simulation.command,
    "group": Simulation.set_group,
    "wait": Simulation.wait,
}
