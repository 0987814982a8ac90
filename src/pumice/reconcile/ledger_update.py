"""Brings the ledger up to date with the pods that exist."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pumice.model.job import Job
from pumice.model.slot import NONE
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.vocabulary import Event, Phase
from pumice.reconcile.ledger import Ledger, split_name
from pumice.reconcile.policies import Match
from pumice.reconcile.state import State, is_restart_target


def record_successes(ledger: Ledger, job: Job, pods: Iterable[ObservedPod]) -> Ledger:
    """Add the pods that succeeded. A recorded success is not run again, even if its pod is deleted."""
    known = {task: set(indexes) for task, indexes in ledger.succeeded.items()}
    for pod in pods:
        # All successes count except those that a restart has voided.
        voided = pod.version < ledger.void or is_restart_target(pod, ledger)
        if pod.has_succeeded and not voided:
            known.setdefault(pod.task, set()).add(pod.index)
    within = {
        task.name: frozenset(index for index in known.get(task.name, ()) if index < task.replicas)
        for task in job.spec.tasks
    }
    return replace(ledger, succeeded={task: indexes for task, indexes in within.items() if indexes})


def update_ledger(state: State, unhandled: Sequence[Match], now: dt.datetime) -> Ledger:
    """Record the pods of this run, so that a missing one is noticed, and drop what is no longer needed.

    A pod that is gone is dropped, too, since it is created again, unless a policy has yet to act on it: its timeout has
    not passed, or another action comes first in this pass.
    """
    job, ledger, snapshot = state.job, state.ledger, state.snapshot
    seen: dict[str, set[int]] = {}
    for pod in state.pods.current:
        # A pod that is first seen while being deleted was deleted by us, before the job was scaled up again.
        known = not pod.is_deleting or pod.index in ledger.seen.get(pod.task, NONE)
        if known and not (pod.is_deleting and pod.phase is PodPhase.FAILED):
            seen.setdefault(pod.task, set()).add(pod.index)
    noticed = {key: match.occurrence.since for match in unhandled if (key := match.occurrence.noticed_as)}
    unknown = snapshot.group is not None and snapshot.group.phase == "Unknown"
    return replace(
        ledger,
        seen={task: frozenset(indexes) for task, indexes in seen.items()},
        evicted=_evicted(state, unhandled),
        noticed=noticed,
        unknown_since=(ledger.unknown_since or now) if unknown else None,
        generation=ledger.generation if Event.JOB_UPDATED in noticed else job.metadata.generation,
        suspended=ledger.suspended or (bool(job.spec.suspend) and state.phase in (Phase.ABORTING, Phase.ABORTED)),
        restart=ledger.restart if state.phase is Phase.RESTARTING or state.pods.replaced else None,
        obeyed=ledger.obeyed & {command.metadata.uid for command in snapshot.commands},
    )


def _evicted(state: State, unhandled: Sequence[Match]) -> dict[str, dt.datetime]:
    """Evicted pods that a policy has yet to act on; none whose new pod runs, or whose slot is gone."""
    evicted = dict(state.ledger.evicted)
    for match in unhandled:
        if match.occurrence.event is Event.POD_EVICTED and not match.occurrence.is_failure:
            evicted[match.occurrence.short_name] = match.occurrence.since
    if not evicted:
        return evicted
    running = {pod.short_name for pod in state.pods.current if pod.phase is PodPhase.RUNNING and not pod.is_deleting}
    return {name: since for name, since in evicted.items() if name not in running and _has_slot(state.job, name)}


def _has_slot(job: Job, name: str) -> bool:
    owner, index = split_name(name)
    task = job.task(owner)
    return task is not None and index < task.replicas
