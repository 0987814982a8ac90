"""Why a simulated job does not end: the last line of a log that stops in the middle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pumice.engines.memory.cluster_state import World
from pumice.engines.memory.kubelet import Kubelet
from pumice.model.job import Job
from pumice.model.snapshot import JobKey, Snapshot
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.ledger import read_ledger
from pumice.reconcile.state import State

_NAMED: Final = 3


def stuck_reason(world: World, key: JobKey, kubelet: Kubelet, *, controller: bool) -> str:
    if not controller:
        return "the controller is down, and no step starts it again"
    job = world.jobs[key]
    return "; ".join(_missing(world, key, kubelet, job)) or job.status.state.message or _without_pods(job)


def _missing(world: World, key: JobKey, kubelet: Kubelet, job: Job) -> Iterator[str]:
    group = world.groups.get(key)
    if group is not None and group.phase == "Pending":
        yield "the PodGroup is Pending, so no pods are created"
    waiting, gang = kubelet.waiting(), kubelet.gang
    if waiting:
        together = f", and {gang} must start together (minAvailable)" if gang > (kubelet.capacity or 0) else ""
        verb = "finds" if len(waiting) == 1 else "find"
        pods = "1 pod" if kubelet.capacity == 1 else f"{kubelet.capacity} pods"
        yield f"{_listed(waiting)} {verb} no room: there is room for {pods}{together}"
    hanging = kubelet.hanging()
    if hanging:
        yield f"{_listed(hanging)} hang{'s' if len(hanging) == 1 else ''} pending, as the scenario says"
    there = tuple(stored.seen for stored in world.pods_of(key))
    free = may_start(State.of(Snapshot(job, there), read_ledger(job.status)))
    for task in job.spec.tasks:
        if task.depends_on is not None and task.name not in free and task.replicas:
            condition = "to complete" if task.depends_on.condition == "Completed" else "to run"
            yield f"{task.name} waits for {', '.join(task.depends_on.name)} {condition} (dependsOn)"


def _without_pods(job: Job) -> str:
    return "nothing more happens" if job.total_replicas else "the job has no pods"


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
