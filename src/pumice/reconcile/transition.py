"""The transition of a pass: the job's next phase, version and retry count, and what the ledger records of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.diagnosis.pod_ends import Reason
from pumice.model.duration import Duration
from pumice.model.job import JobCondition, JobState, JobStatus
from pumice.model.units import read_time, to_seconds
from pumice.model.vocabulary import SUSPENDED, Action, Phase
from pumice.reconcile.ledger import Ledger, Restart, RestartKind, split_name
from pumice.reconcile.ledger_update import update_ledger
from pumice.reconcile.phases import FINAL, Facts, Move, move_for
from pumice.reconcile.policies import Match, has_pending_failure
from pumice.reconcile.reasons import reason_for
from pumice.reconcile.requested_action import Request, unhandled
from pumice.reconcile.state import POLICY_PHASES, State, with_status

# An error of an API server, or a finding, may quote a megabyte; a Job of that size cannot be stored.
LONGEST_MESSAGE: Final = 32_000


class Transition(Struct, frozen=True):
    """The row of the phase table that applies, and the phase that it leads to."""

    request: Request | None
    move: Move
    phase: Phase
    reason: Reason  # why the job enters this phase, or stays in it


def choose_transition(state: State, request: Request | None, matched: Sequence[Match], now: dt.datetime) -> Transition:
    move = move_for(state.phase, request.action if request is not None else None)
    old_group = state.snapshot.group is not None and not state.keeps_group
    facts = Facts(
        state.job,
        state.pods.counts,
        state.exhausted,
        to_delete=len(state.pods.outdated) + old_group,
        pending_failure=has_pending_failure(matched, now),
    )
    phase = move.next_phase(facts)
    reason = reason_for(state, request if isinstance(move.to, Phase) else None, phase)
    return Transition(request, move, phase, reason)


def apply_transition(state: State, transition: Transition, matched: Sequence[Match], now: dt.datetime) -> State:
    """The job in its next phase: version, retry count, reason and ledger, and the pods sorted for them."""
    request, move, phase = transition.request, transition.move, transition.phase
    status, ledger = state.job.status, update_ledger(state, unhandled(matched, request), now)
    if request is not None:
        status, ledger = carry_out(state, ledger, move, request)
    ledger = record_phase(ledger, phase, now)
    entered = enter_phase(status, phase, transition.reason.reason, transition.reason.message, now)
    snapshot = with_status(state.snapshot, entered)
    if request is None and phase is state.phase:
        # Nothing has changed that decides where a pod belongs.
        return replace(state, snapshot=snapshot, ledger=ledger)
    return State.of(snapshot, ledger)


def carry_out(state: State, ledger: Ledger, move: Move, request: Request) -> tuple[JobStatus, Ledger]:
    """Version, retry count and ledger after a requested move."""
    status = state.job.status
    if request.command is not None:
        ledger = replace(ledger, obeyed=ledger.obeyed | {request.command.metadata.uid})
    if move.retry and request.matches:
        status = msgspec.structs.replace(status, retry_count=status.retry_count + 1)
        ledger = _charge_retry(ledger, request)
    if move.new_version:
        status = msgspec.structs.replace(status, version=status.version + 1)
        ledger = _of_new_version(ledger, request, status.version)
    elif move.targeted:
        ledger = _with_targets(state, ledger, request, status.retry_count)
    return status, ledger


def record_phase(ledger: Ledger, phase: Phase, now: dt.datetime) -> Ledger:
    """Record the first Running; drop what only policies need where they do not act."""
    if phase is Phase.RUNNING and ledger.first_running is None:
        return replace(ledger, first_running=now)
    if phase not in POLICY_PHASES:
        return replace(ledger, seen={}, evicted={}, noticed={}, unknown_since=None)
    return ledger


def enter_phase(status: JobStatus, phase: Phase, reason: str, message: str, now: dt.datetime) -> JobStatus:
    """The status in a phase. Its time changes only with the phase; a phase entered again is the newest condition."""
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


def _charge_retry(ledger: Ledger, request: Request) -> Ledger:
    if not request.costs_a_retry:
        return ledger
    by_task = dict(ledger.restarts_by_task)
    for task in {match.occurrence.task for match in request.matches if match.occurrence.task}:
        by_task[task] = by_task.get(task, 0) + 1
    return replace(ledger, spent=ledger.spent + 1, restarts_by_task=by_task)


def _of_new_version(ledger: Ledger, request: Request, version: int) -> Ledger:
    """The pods so far belong to an earlier version; only a restart also voids their successes."""
    restart = None
    if request.action == Action.RESTART_JOB:
        restart = Restart(RestartKind.ALL)
    elif request.action == Action.RESUME_JOB:
        restart = Restart(RestartKind.UNSUCCESSFUL)
    return replace(
        ledger,
        seen={},
        evicted={},
        noticed={},
        unknown_since=None,
        succeeded={} if request.action == Action.RESTART_JOB else ledger.succeeded,
        void=version if request.action == Action.RESTART_JOB else ledger.void,
        restart=restart,
        suspended=request.reason == SUSPENDED,
    )


def _with_targets(state: State, ledger: Ledger, request: Request, retry: int) -> Ledger:
    targets = {task: set(indexes) for task, indexes in request.targets(state.job).items()}
    if ledger.restart is not None and ledger.restart.kind is RestartKind.TARGETS:
        # Targets of an earlier restart that still exist; those that are gone may have new pods, which are not meant.
        for pod in state.pods.replaced:
            targets.setdefault(pod.task, set()).add(pod.index)
    frozen = {task: frozenset(indexes) for task, indexes in targets.items()}
    evicted = {name: since for name, since in ledger.evicted.items() if not _is_among(name, frozen)}
    restart = Restart(RestartKind.TARGETS, retry, frozen)
    return replace(ledger, evicted=evicted, restart=restart).without_targets(frozen)


def _is_among(name: str, targets: dict[str, frozenset[int]]) -> bool:
    task, index = split_name(name)
    return index in targets.get(task, frozenset())


def running_duration(status: JobStatus, ledger: Ledger) -> str | None:
    """How long a finished job took from its first Running."""
    ended = read_time(status.state.last_transition_time)
    if ledger.first_running is None or Phase(status.state.phase) not in FINAL or ended is None:
        return None
    took = ended - ledger.first_running
    return str(Duration(max(int(took.total_seconds()), 0) * 10**9))
