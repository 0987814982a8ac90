"""Pods that have finished keep their logs: the containers of a pod end a second before its phase says so."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import cast

import pytest

from pumice.admission.admit import admit
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import ContainerEnd, PodPhase
from pumice.reconcile.decision import DeletePod, EngineCommand
from pumice.runtime.ports import EngineError
from pumice.yaml.documents import read
from tests.conftest import SOAK, seed
from tests.meta.tree import ROOT
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import CONTEXT, Simulation

KUBELET_LAG = 1.1  # seconds, measured on a real kubelet


def pytorch_job() -> Job:
    [document] = read(str(ROOT / "examples" / "pytorch-job.yaml"))[0]
    return admit(cast(Manifest, document.value), CONTEXT).job


def end_containers(sim: Simulation, name: str, code: int = 0) -> Simulation:
    """The containers of a pod have ended; its phase is that of a running pod for a while."""
    return sim.change(name, has_ended=True, ready=False, ends=(ContainerEnd("main", code),))


def play_ends(sim: Simulation, ends: Mapping[str, float]) -> None:
    """Let the containers of each pod end at its moment, and its phase follow."""
    moments = [(moment, name, False) for name, moment in ends.items()]
    moments += [(moment + KUBELET_LAG, name, True) for name, moment in ends.items()]
    before = 0.0
    for moment, name, phase_follows in sorted(moments):
        sim.wait(moment - before)
        before = moment
        if phase_follows:
            sim.change(name, phase=PodPhase.SUCCEEDED)
        else:
            end_containers(sim, name)


def test_many_runs_of_the_pytorch_job_lose_no_finished_worker() -> None:
    lots = random.Random(seed())
    for _ in range(100 if SOAK else 20):
        sim = Simulation(pytorch_job()).run()
        ends = {pod.short_name: lots.uniform(0, 1) for pod in sim.seen}
        play_ends(sim, ends)
        assert sim.phase == "Completed", ends
        assert sim.pods == dict.fromkeys(ends, "Succeeded"), ends
        assert sim.counts == {"succeeded": len(ends)}, ends


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "CompleteJob"])
def test_a_pod_that_is_about_to_finish_is_awaited(simulate: Simulate, action: str) -> None:
    sim = simulate(job(task("worker", 2))).run()
    end_containers(sim, "worker-0", code=3)
    sim.command(action).let_go()
    assert sim.pods == {"worker-0": "Running"}
    assert sim.phase in ("Aborting", "Terminating", "Completing")
    sim.change("worker-0", phase=PodPhase.FAILED)
    assert sim.pods == {"worker-0": "Failed"}
    assert sim.phase in ("Aborted", "Terminated", "Completed")


def test_only_the_phase_is_a_success() -> None:
    """The containers of a pod that its kubelet evicts may end with 0 as well."""
    sim = Simulation(job(task("worker", 2), on("TaskCompleted", "CompleteJob"), on("PodEvicted", "RestartJob"))).run()
    sim.succeed("worker-0")
    end_containers(sim, "worker-1")
    assert sim.phases == ["Pending", "Running"]
    sim.change("worker-1", phase=PodPhase.FAILED, reason="Evicted")
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending"]


def test_a_pod_that_finishes_before_its_deletion_stays() -> None:
    sim = Simulation(job(task("worker", 2))).run()

    def finish_first(command: EngineCommand) -> EngineError | None:
        if isinstance(command, DeletePod) and command.name == "train-worker-0":
            sim.world.end_pod(sim.key, command.name, ContainerEnd("main", 0, "Completed"))
        return None

    sim.engine.refuse = finish_first
    sim.command("AbortJob")
    assert sim.pods == {"worker-0": "Succeeded"}
    assert sim.phase == "Aborted"
