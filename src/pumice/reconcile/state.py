"""The state of a job within a pass: the snapshot, the ledger, and the pods sorted into buckets.

The pods are sorted once, and again only when the job moves: its phase, its version and its restart decide where a pod
belongs. Every step reads the buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pumice.model.job import Job, JobStatus, TaskState
from pumice.model.slot import NONE
from pumice.model.snapshot import ObservedPod, PodPhase, Snapshot
from pumice.model.vocabulary import Phase
from pumice.reconcile.ledger import Ledger, RestartKind

# The phases in which a job creates pods. In all others except Restarting it deletes every pod that is not finished.
WANTS_PODS: Final = frozenset((Phase.PENDING, Phase.RUNNING))
# The phases in which policies act. A job that winds down or is over ignores what happens to its pods.
POLICY_PHASES: Final = WANTS_PODS | {Phase.RESTARTING}


class PodCounts(Struct, frozen=True):
    """The numbers that the status and the rules of the phase table need."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0  # including successes in the ledger whose pods are gone
    failed: int = 0
    unknown: int = 0
    terminating: int = 0  # being deleted, or deleted by this pass, in any phase
    by_task: Mapping[str, Counter[str]] = field(default_factory=dict)

    @property
    def alive(self) -> int:
        return self.pending + self.running + self.unknown + self.terminating

    def of_task(self, task: str, phase: PodPhase) -> int:
        return self.by_task.get(task, Counter())[phase]

    def task_states(self) -> dict[str, TaskState]:
        return {task: TaskState(phase=dict(sorted(counts.items()))) for task, counts in sorted(self.by_task.items())}


class PodBuckets(Struct, frozen=True):
    # Pods of the job's version, in one of its slots, that no restart replaces. Pods that are being deleted included.
    current: list[ObservedPod] = field(default_factory=list)
    # Pods that the restart under way replaces; it ends when none is left.
    replaced: list[ObservedPod] = field(default_factory=list)
    # Pods to delete in this pass.
    outdated: list[ObservedPod] = field(default_factory=list)
    # The indexes that have a pod, by task.
    indexes: dict[str, set[int]] = field(default_factory=dict)
    counts: PodCounts = field(default_factory=PodCounts)


class State(Struct, frozen=True):
    snapshot: Snapshot
    ledger: Ledger
    pods: PodBuckets
    exhausted: bool  # the retries of the job, or of one of its tasks, are used up

    @classmethod
    def of(cls, snapshot: Snapshot, ledger: Ledger) -> State:
        exhausted = is_exhausted(snapshot.job, ledger)
        return cls(snapshot, ledger, sort_pods(snapshot, ledger, exhausted=exhausted), exhausted)

    @property
    def job(self) -> Job:
        return self.snapshot.job

    @property
    def phase(self) -> Phase:
        return Phase(self.snapshot.job.status.state.phase)

    @property
    def keeps_group(self) -> bool:
        """Whether the PodGroup belongs to the present run: only a targeted restart keeps it."""
        restart = self.ledger.restart
        targeted = restart is not None and restart.kind is RestartKind.TARGETS
        return self.phase in WANTS_PODS or (self.phase is Phase.RESTARTING and targeted)

    @property
    def keeps_finished(self) -> bool:
        """Whether finished pods stay, so that people can look at them: of a job that ends, and of its last attempt."""
        return self.phase not in WANTS_PODS and (self.exhausted or self.phase is not Phase.RESTARTING)

    @property
    def previous_run(self) -> list[ObservedPod]:
        """The pods that a restart of the whole job waits for, so that two runs never meet."""
        restart = self.ledger.restart
        return self.pods.replaced if restart is not None and restart.kind is not RestartKind.TARGETS else []

    def with_status(self, status: JobStatus) -> State:
        """The same pods and ledger; phase and version must not differ."""
        return replace(self, snapshot=with_status(self.snapshot, status))


def with_status(snapshot: Snapshot, status: JobStatus) -> Snapshot:
    return replace(snapshot, job=msgspec.structs.replace(snapshot.job, status=status))


def is_exhausted(job: Job, ledger: Ledger) -> bool:
    """Whether the retries of the job, or of one of its tasks, are used up."""
    if ledger.spent >= job.spec.max_retry:
        return True
    return any(
        task.max_restarts is not None and ledger.restarts_by_task.get(task.name, 0) > task.max_restarts
        for task in job.spec.tasks
    )


def sort_pods(snapshot: Snapshot, ledger: Ledger, *, exhausted: bool) -> PodBuckets:
    """Sort the pods by the phase and version that the job is in, or is about to enter."""
    job, restart = snapshot.job, ledger.restart
    phase, version = job.status.state.phase, job.status.version
    wants_pods, restarting = phase in WANTS_PODS, phase == Phase.RESTARTING
    replaces_old = restart is not None and restart.kind is not RestartKind.TARGETS
    replicas = {task.name: task.replicas for task in reversed(job.spec.tasks)}
    buckets = PodBuckets(indexes={name: set() for name in replicas})
    kept, terminating = [], 0
    for pod in snapshot.pods:
        task, index = pod.task, pod.index
        buckets.indexes.setdefault(task, set()).add(index)
        has_slot = index < replicas.get(task, 0)
        is_old = pod.version < version
        is_target = restart is not None and is_restart_target(pod, ledger)
        has_succeeded = index in ledger.succeeded.get(task, NONE)
        if has_slot and pod.version == version and not is_target:
            buckets.current.append(pod)
        elif is_target or (replaces_old and is_old and not has_succeeded):
            buckets.replaced.append(pod)
        # What succeeded before the job was suspended has succeeded.
        is_stale = is_target or (is_old and not (has_succeeded and pod.phase is PodPhase.SUCCEEDED))
        if wants_pods:
            keep = has_slot and not is_stale
        elif restarting:
            keep = not is_stale or (exhausted and pod.is_finished)
        else:
            keep = pod.is_finished
        if pod.deleted_at is not None:
            terminating += 1
        elif keep:
            kept.append(pod)
        else:
            buckets.outdated.append(pod)
    counts = _count(kept, terminating + len(buckets.outdated), job, ledger)
    return replace(buckets, counts=counts)


def is_restart_target(pod: ObservedPod, ledger: Ledger) -> bool:
    """Whether a targeted restart replaces this pod. Pods that it created have its retry count."""
    restart = ledger.restart
    if restart is None or restart.kind is not RestartKind.TARGETS:
        return False
    return pod.retry < restart.retry and pod.index in restart.targets.get(pod.task, NONE)


def _count(kept: Iterable[ObservedPod], terminating: int, job: Job, ledger: Ledger) -> PodCounts:
    """Count each success once, by its pod or by the ledger."""
    by_task: dict[str, Counter[str]] = {}
    present: dict[str, set[int]] = {}
    for pod in kept:
        counts = by_task.get(pod.task)
        if counts is None:
            counts = by_task[pod.task] = Counter()
        counts[pod.phase] += 1
        if pod.phase is PodPhase.SUCCEEDED:
            present.setdefault(pod.task, set()).add(pod.index)
    for task in job.spec.tasks:
        recorded = ledger.succeeded.get(task.name, NONE) - present.get(task.name, set())
        if recorded:
            by_task.setdefault(task.name, Counter())[PodPhase.SUCCEEDED] += len(recorded)
    total = sum(by_task.values(), Counter())
    return PodCounts(
        pending=total[PodPhase.PENDING],
        running=total[PodPhase.RUNNING],
        succeeded=total[PodPhase.SUCCEEDED],
        failed=total[PodPhase.FAILED],
        unknown=total[PodPhase.UNKNOWN],
        terminating=terminating,
        by_task=by_task,
    )
