"""One pass over the pods gives every number that a status or a rule needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pumice.model.job import Job
from pumice.model.slot import NONE
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.status import TaskState
from pumice.reconcile.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Tally:
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def alive(self) -> int:
        return self.pending + self.running + self.unknown + self.terminating

    def of_task(self, task: str, phase: PodPhase) -> int:
        return self.by_task.get(task, Counter())[phase]

    def task_states(self) -> dict[str, TaskState]:
        return {task: TaskState(phase=dict(sorted(counts.items()))) for task, counts in sorted(self.by_task.items())}


def tally(job: Job, pods: Iterable[ObservedPod], ledger: Ledger, doomed: Callable[[ObservedPod], bool]) -> Tally:
    """Count the pods; those that are or will be on their way out are terminating, whatever their phase.

    A success is counted once, by its pod or by memory: the pod of a remembered one may be gone.
    """
    by_task: dict[str, Counter[str]] = {}
    terminating = 0
    present: dict[str, set[int]] = {}
    for pod in pods:
        if pod.is_deleting or doomed(pod):
            terminating += 1
            continue
        counts = by_task.get(pod.task)
        if counts is None:
            counts = by_task[pod.task] = Counter()
        counts[pod.phase] += 1
        if pod.phase is PodPhase.SUCCEEDED:
            present.setdefault(pod.task, set()).add(pod.index)
    for task in job.spec.tasks:
        remembered = ledger.succeeded.get(task.name, NONE) - present.get(task.name, set())
        if remembered:
            by_task.setdefault(task.name, Counter())[PodPhase.SUCCEEDED] += len(remembered)
    total = sum(by_task.values(), Counter())
    return Tally(
        pending=total[PodPhase.PENDING],
        running=total[PodPhase.RUNNING],
        succeeded=total[PodPhase.SUCCEEDED],
        failed=total[PodPhase.FAILED],
        unknown=total[PodPhase.UNKNOWN],
        terminating=terminating,
        by_task=by_task,
    )
