"""The events that policies may match, derived from the observed state.

A failed pod of the present run *is* the event PodFailed for as long as the pod exists, so nothing is lost while the
controller is down. A pod that is gone is noticed by the ledger, which records the pods of the run.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from msgspec import Struct

from pumice.model.job import TaskSpec
from pumice.model.slot import NONE
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.vocabulary import Event
from pumice.reconcile.ledger import Ledger, split_name
from pumice.reconcile.state import POLICY_PHASES, State


class Occurrence(Struct, frozen=True):
    """An event, its pod, and since when it holds."""

    event: Event
    since: dt.datetime
    task: str = ""  # empty if it is about the whole job
    index: int | None = None
    pod: ObservedPod | None = None  # None if it is gone
    exit_code: int | None = None
    noticed_as: str = ""  # the key of `since` in the ledger, if no object holds it

    @property
    def is_failure(self) -> bool:
        """Whether a pod failed that is not being deleted: also one that its kubelet evicted, for any policy."""
        return self.event is Event.POD_FAILED or (
            self.pod is not None and self.pod.is_evicted and not self.pod.is_deleting
        )

    @property
    def short_name(self) -> str:
        return self.task if self.index is None else f"{self.task}-{self.index}"


def occurrences(state: State, now: dt.datetime) -> list[Occurrence]:
    """Everything that a policy may match, the oldest first; nothing in a phase in which policies do not act."""
    if state.phase not in POLICY_PHASES:
        return []
    found = [*_of_pods(state, now), *_evictions(state, now), *_of_tasks(state, now), *_of_job(state, now)]
    return sorted(found, key=lambda one: (one.since, one.short_name))


def _of_pods(state: State, now: dt.datetime) -> Iterator[Occurrence]:
    for pod in state.pods.current:
        if pod.is_deleting:
            continue
        if pod.phase is PodPhase.FAILED:
            failure = pod.first_failure
            code = failure.exit_code if failure is not None else None
            key = "" if pod.ended_at else f"{Event.POD_FAILED}/{pod.short_name}"
            # The clock of a node may be ahead of ours.
            since = min(pod.ended_at or state.ledger.noticed.get(key, now), now)
            yield Occurrence(Event.POD_FAILED, since, pod.task, pod.index, pod, code, key)
        elif pod.phase is PodPhase.PENDING:
            yield Occurrence(Event.POD_PENDING, pod.created_at, pod.task, pod.index, pod)


def _evictions(state: State, now: dt.datetime) -> Iterator[Occurrence]:
    """Pods that the controller did not delete: gone, or failed while being deleted."""
    ledger = state.ledger
    evicted = list(map(split_name, ledger.evicted))
    for task in state.job.spec.tasks:
        waiting = {index for owner, index in evicted if owner == task.name}
        missing = (ledger.seen.get(task.name, NONE) | waiting) - state.pods.indexes[task.name]
        for index in sorted(missing - ledger.succeeded.get(task.name, NONE)):
            if index < task.replicas:
                since = ledger.evicted.get(f"{task.name}-{index}", now)
                yield Occurrence(Event.POD_EVICTED, since, task.name, index)
    for pod in state.pods.current:
        if not (pod.is_deleting or ledger.evicted):
            continue
        waits = pod.short_name in ledger.evicted
        known = waits or pod.index in ledger.seen.get(pod.task, NONE)
        if pod.is_deleting and known and pod.phase is PodPhase.FAILED:
            yield Occurrence(Event.POD_EVICTED, ledger.evicted.get(pod.short_name, now), pod.task, pod.index, pod)
        elif waits and pod.phase is PodPhase.PENDING and not pod.is_deleting:
            # The new pod does not run yet, so the policy's timeout goes on.
            yield Occurrence(Event.POD_EVICTED, ledger.evicted[pod.short_name], pod.task, pod.index, pod)


def _of_tasks(state: State, now: dt.datetime) -> Iterator[Occurrence]:
    by_task: dict[str, list[ObservedPod]] = {}
    for pod in state.pods.current:
        if not pod.is_deleting:
            by_task.setdefault(pod.task, []).append(pod)
    for task in state.job.spec.tasks:
        pods = by_task.get(task.name, [])
        if 0 < task.replicas <= state.pods.counts.of_task(task.name, PodPhase.SUCCEEDED):
            yield from _completion(task, pods, state.ledger, now)
        yield from _container_restarts(task, pods, state.ledger, now)


def _completion(task: TaskSpec, pods: list[ObservedPod], ledger: Ledger, now: dt.datetime) -> Iterator[Occurrence]:
    """A task is completed when all its indexes succeeded, at least one of them in this run."""
    succeeded = [pod for pod in pods if pod.phase is PodPhase.SUCCEEDED]
    if succeeded:
        last = max(succeeded, key=lambda pod: (pod.ended_at or now, pod.index))
        key = "" if last.ended_at else f"{Event.TASK_COMPLETED}/{task.name}"
        since = min(last.ended_at or ledger.noticed.get(key, now), now)
        yield Occurrence(Event.TASK_COMPLETED, since, task.name, last.index, last, noticed_as=key)


def _container_restarts(
    task: TaskSpec, pods: list[ObservedPod], ledger: Ledger, now: dt.datetime
) -> Iterator[Occurrence]:
    """TaskFailed: the containers of the task restarted too often. It is not about failed pods."""
    restarting = [pod for pod in pods if pod.phase in (PodPhase.RUNNING, PodPhase.PENDING) and pod.restarts]
    if restarting and task.replicas > 0 and sum(pod.restarts for pod in restarting) >= task.max_retry:
        worst = max(restarting, key=lambda pod: (pod.restarts, -pod.index))
        key = f"{Event.TASK_FAILED}/{task.name}"
        since = ledger.noticed.get(key, now)
        yield Occurrence(Event.TASK_FAILED, since, task.name, worst.index, worst, noticed_as=key)


def _of_job(state: State, now: dt.datetime) -> Iterator[Occurrence]:
    group, ledger, generation = state.snapshot.group, state.ledger, state.job.metadata.generation
    if group is not None and group.phase == "Unknown" and state.keeps_group:
        yield Occurrence(Event.UNKNOWN, ledger.unknown_since or now)
    if ledger.generation and generation > ledger.generation:
        key = str(Event.JOB_UPDATED)
        yield Occurrence(Event.JOB_UPDATED, ledger.noticed.get(key, now), noticed_as=key)
