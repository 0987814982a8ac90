"""What has happened, read off what is.

A failed pod of this run *is* the event PodFailed, for as long as it stands there.

So nothing that happens while the controller is away is lost. What cannot be seen any more (a pod that is gone) is told
by the ledger, which knows who was there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pumice.model.job import Job, TaskSpec
from pumice.model.slot import NONE
from pumice.model.snapshot import ObservedPod, PodPhase, Snapshot
from pumice.model.vocabulary import Event, Phase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.pod_membership import is_current, keeps_group
from pumice.reconcile.tally import Tally


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event, whom it is about, and since when it holds."""

    event: Event
    since: dt.datetime
    task: str = ""  # empty if it is about the whole job
    index: int | None = None
    pod: ObservedPod | None = None  # None if it is gone
    exit_code: int | None = None
    noticed_as: str = ""  # where the ledger keeps `since`, if nothing else tells it

    @property
    def short_name(self) -> str:
        return self.task if self.index is None else f"{self.task}-{self.index}"


def occurrences(snapshot: Snapshot, ledger: Ledger, counts: Tally, now: dt.datetime) -> list[Occurrence]:
    """Everything that a policy could be about, the oldest first."""
    job = snapshot.job
    current = [pod for pod in snapshot.pods if is_current(pod, job, ledger)]
    found = [
        *_of_pods(current, ledger, now),
        *_evictions(job, snapshot.pods, current, ledger, now),
        *_of_tasks(job, current, counts, ledger, now),
        *_of_job(snapshot, ledger, now),
    ]
    return sorted(found, key=lambda one: (one.since, one.short_name))


def _of_pods(current: Iterable[ObservedPod], ledger: Ledger, now: dt.datetime) -> Iterator[Occurrence]:
    for pod in current:
        if pod.is_deleting:
            continue
        if pod.phase is PodPhase.FAILED:
            failure = pod.first_failure
            code = failure.exit_code if failure is not None else None
            key = "" if pod.ended_at else f"{Event.POD_FAILED}/{pod.short_name}"
            # The clock of a node may be ahead of ours; what has happened is not in the future.
            since = min(pod.ended_at or ledger.noticed.get(key, now), now)
            yield Occurrence(Event.POD_FAILED, since, pod.task, pod.index, pod, code, key)
        elif pod.phase is PodPhase.PENDING:
            yield Occurrence(Event.POD_PENDING, pod.created_at, pod.task, pod.index, pod)


def _evictions(
    job: Job, pods: Iterable[ObservedPod], current: Iterable[ObservedPod], ledger: Ledger, now: dt.datetime
) -> Iterator[Occurrence]:
    """Pods that somebody else removed: gone, or failed on the way out; not yet when it was only asked for."""
    there = {(pod.task, pod.index) for pod in pods}
    for task in job.spec.tasks:
        missed = ledger.seen.get(task.name, NONE) | _waiting_for_policy(task, ledger)
        for index in sorted(missed - ledger.succeeded.get(task.name, NONE)):
            name = f"{task.name}-{index}"
            if (task.name, index) not in there and index < task.replicas:
                yield Occurrence(Event.POD_EVICTED, ledger.evicted.get(name, now), task.name, index)
    for pod in current:
        waits = pod.short_name in ledger.evicted
        known = waits or pod.index in ledger.seen.get(pod.task, NONE)
        if pod.is_deleting and known and pod.phase is PodPhase.FAILED:
            yield Occurrence(Event.POD_EVICTED, ledger.evicted.get(pod.short_name, now), pod.task, pod.index, pod)
        elif waits and pod.phase is PodPhase.PENDING and not pod.is_deleting:
            # Its successor does not run yet, so the policy's timeout goes on.
            yield Occurrence(Event.POD_EVICTED, ledger.evicted[pod.short_name], pod.task, pod.index, pod)


def _waiting_for_policy(task: TaskSpec, ledger: Ledger) -> frozenset[int]:
    names = (name.rpartition("-") for name in ledger.evicted)
    return frozenset(int(index) for owner, _, index in names if owner == task.name)


def _of_tasks(
    job: Job, current: list[ObservedPod], counts: Tally, ledger: Ledger, now: dt.datetime
) -> Iterator[Occurrence]:
    by_task: dict[str, list[ObservedPod]] = {}
    for pod in current:
        if not pod.is_deleting:
            by_task.setdefault(pod.task, []).append(pod)
    for task in job.spec.tasks:
        pods = by_task.get(task.name, [])
        yield from _completion(task, pods, counts, ledger, now)
        yield from _container_restarts(task, pods, ledger, now)


def _completion(
    task: TaskSpec, pods: list[ObservedPod], counts: Tally, ledger: Ledger, now: dt.datetime
) -> Iterator[Occurrence]:
    """A task is completed when all its indexes succeeded, one of them at least in this run."""
    done = [pod for pod in pods if pod.phase is PodPhase.SUCCEEDED]
    if done and 0 < task.replicas <= counts.of_task(task.name, PodPhase.SUCCEEDED):
        last = max(done, key=lambda pod: (pod.ended_at or now, pod.index))
        key = "" if last.ended_at else f"{Event.TASK_COMPLETED}/{task.name}"
        since = min(last.ended_at or ledger.noticed.get(key, now), now)
        yield Occurrence(Event.TASK_COMPLETED, since, task.name, last.index, last, noticed_as=key)


def _container_restarts(
    task: TaskSpec, pods: list[ObservedPod], ledger: Ledger, now: dt.datetime
) -> Iterator[Occurrence]:
    """TaskFailed is about containers that were restarted too often, not about failed pods."""
    restarting = [pod for pod in pods if pod.phase in (PodPhase.RUNNING, PodPhase.PENDING) and pod.restarts]
    if restarting and task.replicas > 0 and sum(pod.restarts for pod in restarting) >= task.max_retry:
        worst = max(restarting, key=lambda pod: (pod.restarts, -pod.index))
        key = f"{Event.TASK_FAILED}/{task.name}"
        since = ledger.noticed.get(key, now)
        yield Occurrence(Event.TASK_FAILED, since, task.name, worst.index, worst, noticed_as=key)


def _of_job(snapshot: Snapshot, ledger: Ledger, now: dt.datetime) -> Iterator[Occurrence]:
    phase = Phase(snapshot.job.status.state.phase)
    if snapshot.group is not None and snapshot.group.phase == "Unknown" and keeps_group(phase, ledger):
        yield Occurrence(Event.UNKNOWN, ledger.unknown_since or now)
    generation = snapshot.job.metadata.generation
    if ledger.generation and generation > ledger.generation:
        key = str(Event.JOB_UPDATED)
        yield Occurrence(Event.JOB_UPDATED, ledger.noticed.get(key, now), noticed_as=key)
