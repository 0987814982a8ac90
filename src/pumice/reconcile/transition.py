"""A move carried out on paper.

The job's new phase, version and counts of retries, and what the ledger remembers of it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Final

import msgspec

from pumice.model.duration import Duration
from pumice.model.job import Job
from pumice.model.snapshot import Snapshot
from pumice.model.status import JobCondition, JobState, JobStatus
from pumice.model.timestamps import read_time, to_seconds
from pumice.model.vocabulary import Action, Phase
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.phases import FINAL, Move
from pumice.reconcile.pod_membership import is_target
from pumice.reconcile.requested_action import ATTENTIVE, SUSPENDED, Order

# What an API server or a finding quotes may be a megabyte long, and a Job that large cannot be stored any more.
LONGEST_MESSAGE: Final = 32_000


def carried_out(snapshot: Snapshot, ledger: Ledger, move: Move, order: Order | None) -> tuple[Job, Ledger]:
    """Version, retries and ledger after a move that an order asked for; the phase is entered separately."""
    job, status = snapshot.job, snapshot.job.status
    if order is None:
        return job, ledger
    if order.command is not None:
        ledger = replace(ledger, obeyed=ledger.obeyed | {order.command.metadata.uid})
    if move.retry and order.matches:
        status = msgspec.structs.replace(status, retry_count=status.retry_count + 1)
        ledger = _charged(ledger, order)
    if move.new_version:
        status = msgspec.structs.replace(status, version=status.version + 1)
        ledger = _of_new_version(ledger, order, status.version)
    elif move.targeted:
        ledger = _with_targets(ledger, order, snapshot, status.retry_count)
    return msgspec.structs.replace(job, status=status), ledger


def settled(ledger: Ledger, phase: Phase, now: dt.datetime) -> Ledger:
    """What the ledger notes of a phase: when the job first ran; and that nobody is missed where nobody is wanted."""
    if phase is Phase.RUNNING and ledger.first_running is None:
        return replace(ledger, first_running=now)
    if phase not in ATTENTIVE:
        return replace(ledger, seen={}, evicted={}, noticed={}, unknown_since=None)
    return ledger


def is_exhausted(job: Job, ledger: Ledger) -> bool:
    """Whether the budget of the job, or of one of its tasks, is used up."""
    if ledger.spent >= job.spec.max_retry:
        return True
    return any(
        task.max_restarts is not None and ledger.restarts_by_task.get(task.name, 0) > task.max_restarts
        for task in job.spec.tasks
    )


def entered(status: JobStatus, phase: Phase, reason: str, message: str, now: dt.datetime) -> JobStatus:
    """The status in a phase. Its time moves only with the phase; a phase entered again is the newest condition."""
    state, message = status.state, shortened(message)
    if state.phase == phase:
        return msgspec.structs.replace(status, state=msgspec.structs.replace(state, reason=reason, message=message))
    moment = to_seconds(now)
    conditions = [condition for condition in status.conditions if condition.status != phase]
    return msgspec.structs.replace(
        status,
        state=JobState(phase=phase, reason=reason, message=message, last_transition_time=moment),
        conditions=[*conditions, JobCondition(status=phase, last_transition_time=moment)],
    )


def shortened(message: str, longest: int = LONGEST_MESSAGE) -> str:
    return message if len(message) <= longest else message[: longest - 3] + "..."


def _charged(ledger: Ledger, order: Order) -> Ledger:
    if not order.costs_a_retry:
        return ledger
    by_task = dict(ledger.restarts_by_task)
    for task in {match.occurrence.task for match in order.matches if match.occurrence.task}:
        by_task[task] = by_task.get(task, 0) + 1
    return replace(ledger, spent=ledger.spent + 1, restarts_by_task=by_task)


def _of_new_version(ledger: Ledger, order: Order, version: int) -> Ledger:
    """The pods so far are of an earlier version now; only a restart also voids what they achieved."""
    restart = None
    if order.action == Action.RESTART_JOB:
        restart = Restart(RestartKind.ALL)
    elif order.action == Action.RESUME_JOB:
        restart = Restart(RestartKind.UNSUCCESSFUL)
    return replace(
        ledger,
        seen={},
        evicted={},
        noticed={},
        unknown_since=None,
        succeeded={} if order.action == Action.RESTART_JOB else ledger.succeeded,
        void=version if order.action == Action.RESTART_JOB else ledger.void,
        restart=restart,
        suspended=order.reason == SUSPENDED,
    )


def _with_targets(ledger: Ledger, order: Order, snapshot: Snapshot, retry: int) -> Ledger:
    targets = {task: set(indexes) for task, indexes in order.targets(snapshot.job).items()}
    for pod in snapshot.pods:
        # Targets of an earlier restart that still linger; those that are gone may have successors, which are not meant.
        if is_target(pod, ledger):
            targets.setdefault(pod.task, set()).add(pod.index)
    meant = {task: frozenset(indexes) for task, indexes in targets.items()}
    evicted = {name: since for name, since in ledger.evicted.items() if not _is_among(name, meant)}
    restart = Restart(RestartKind.TARGETS, retry, meant)
    return replace(ledger, evicted=evicted, restart=restart).without_targets(meant)


def _is_among(name: str, targets: dict[str, frozenset[int]]) -> bool:
    task, _, index = name.rpartition("-")
    return int(index) in targets.get(task, frozenset())


def running_duration(status: JobStatus, ledger: Ledger) -> str | None:
    """How long a finished job took, from its first Running on."""
    ended = read_time(status.state.last_transition_time)
    if ledger.first_running is None or Phase(status.state.phase) not in FINAL or ended is None:
        return None
    took = ended - ledger.first_running
    return str(Duration(max(int(took.total_seconds()), 0) * 10**9))
