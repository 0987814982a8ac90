"""What a pass learns from the pods it sees, and what it may forget.

The ledger brought up to date before anything else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pumice.model.job import Job
from pumice.model.slot import NONE, Indexes
from pumice.model.snapshot import ObservedPod, PodPhase, Snapshot
from pumice.model.vocabulary import Event, Phase
from pumice.reconcile.ledger import ByTask, Ledger, RestartKind
from pumice.reconcile.pod_membership import is_current, is_target
from pumice.reconcile.policies import Match


def remembering_successes(snapshot: Snapshot, ledger: Ledger) -> Ledger:
    """Add the successes that stand before us; who succeeded is not run again even if his pod is removed."""
    job = snapshot.job
    known = {task: set(indexes) for task, indexes in ledger.succeeded.items()}
    for pod in snapshot.pods:
        if pod.phase is PodPhase.SUCCEEDED and not pod.is_deleting and _counts(pod, ledger):
            known.setdefault(pod.task, set()).add(pod.index)
    return replace(ledger, succeeded=_within(job, known))


def remembering_presence(snapshot: Snapshot, ledger: Ledger, open_: Sequence[Match], now: dt.datetime) -> Ledger:
    """Note who is there, so that it is noticed when somebody is not; and forget what is settled.

    Who was there and is gone is forgotten, too, since he is made anew, unless a policy has yet to deal with it: its
    timeout still runs, or something else comes first in this pass.
    """
    job, phase = snapshot.job, Phase(snapshot.job.status.state.phase)
    current = [pod for pod in snapshot.pods if is_current(pod, job, ledger)]
    seen: dict[str, set[int]] = {}
    for pod in current:
        # Who is first seen on his way out was sent away by us, before the job was scaled up again.
        known = pod.index in ledger.seen.get(pod.task, NONE)
        if not pod.is_deleting or (known and pod.phase is not PodPhase.FAILED):
            seen.setdefault(pod.task, set()).add(pod.index)
    waiting = {
        match.occurrence.short_name: match.occurrence.since
        for match in open_
        if match.occurrence.event is Event.POD_EVICTED
    }
    noticed = {key: match.occurrence.since for match in open_ if (key := match.occurrence.noticed_as)}
    running = {pod.short_name for pod in current if pod.phase is PodPhase.RUNNING and not pod.is_deleting}
    missed = {**ledger.evicted, **waiting}
    evicted = {name: since for name, since in missed.items() if name not in running and _is_slot(job, name)}
    unknown = snapshot.group is not None and snapshot.group.phase == "Unknown"
    return replace(
        ledger,
        seen=_within(job, seen),
        evicted=evicted,
        noticed=noticed,
        unknown_since=(ledger.unknown_since or now) if unknown else None,
        generation=ledger.generation if Event.JOB_UPDATED in noticed else job.metadata.generation,
        suspended=ledger.suspended or (bool(job.spec.suspend) and phase in (Phase.ABORTING, Phase.ABORTED)),
        restart=ledger.restart if _restart_goes_on(snapshot, ledger) else None,
        obeyed=ledger.obeyed & {command.metadata.uid for command in snapshot.commands},
    )


def _counts(pod: ObservedPod, ledger: Ledger) -> bool:
    """Whether a success belongs to the present run: all do, but for those that a restart has voided."""
    return pod.version >= ledger.void and not is_target(pod, ledger)


def _restart_goes_on(snapshot: Snapshot, ledger: Ledger) -> bool:
    """A restart is over when none of the pods that it meant is left."""
    if Phase(snapshot.job.status.state.phase) is Phase.RESTARTING:
        return True
    return any(_is_meant(pod, snapshot.job, ledger) for pod in snapshot.pods)


def _is_meant(pod: ObservedPod, job: Job, ledger: Ledger) -> bool:
    if ledger.restart is None or ledger.restart.kind is RestartKind.TARGETS:
        return is_target(pod, ledger)
    return pod.version < job.status.version and not ledger.has_succeeded(pod.task, pod.index)


def _is_slot(job: Job, name: str) -> bool:
    """Whether the job (still) has a place that is called so."""
    owner, _, index = name.rpartition("-")
    task = job.task(owner)
    return task is not None and int(index) < task.replicas


def _within(job: Job, by_task: dict[str, set[int]]) -> ByTask:
    """Only indexes that the job (still) has."""
    kept: dict[str, Indexes] = {}
    for task in job.spec.tasks:
        indexes: Iterable[int] = by_task.get(task.name, ())
        kept[task.name] = frozenset(index for index in indexes if index < task.replicas)
    return {task: found for task, found in kept.items() if found}
