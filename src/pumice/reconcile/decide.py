"""One pass over one job: from the observed state to the status, commands and events. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice.model.job import JobStatus
from pumice.model.snapshot import Snapshot
from pumice.model.vocabulary import INVALID_JOB, Phase
from pumice.plugins.base import Base
from pumice.reconcile.deadlines import expiry, requeue_after
from pumice.reconcile.decision import Decision, DeleteJob, DeletePod, EngineCommand, JobEvent, RemoveCommand, Severity
from pumice.reconcile.events import events_for
from pumice.reconcile.ledger import read_ledger, write_ledger
from pumice.reconcile.ledger_update import record_successes
from pumice.reconcile.occurrences import occurrences
from pumice.reconcile.owned_objects import reconcile_owned_objects, volcano_markers
from pumice.reconcile.phases import FINAL, TABLE
from pumice.reconcile.pod_creation import plan_pods
from pumice.reconcile.policies import match_policies
from pumice.reconcile.reasons import waiting_reason
from pumice.reconcile.requested_action import choose_request, stale_commands
from pumice.reconcile.sanitize import sanitize_ledger, sanitize_status
from pumice.reconcile.state import WANTS_PODS, State, with_status
from pumice.reconcile.transition import (
    LONGEST_MESSAGE,
    apply_transition,
    choose_transition,
    enter_phase,
    running_duration,
    shortened,
)
from pumice.reconcile.waiting_pods import Wait

# A finding quotes the value that it found, which may be of any length.
LONGEST_ERROR: Final = 1_000


def decide(snapshot: Snapshot, plugins: Sequence[Base], now: dt.datetime) -> Decision:
    status = snapshot.job.status
    if snapshot.job.metadata.deletion_timestamp is not None:
        # The garbage collector removes everything that the job owns.
        return Decision(status)
    if status.state.phase not in TABLE:
        return _start(snapshot, plugins, now)
    if not snapshot.errors:
        return _reconcile(snapshot, plugins, now)
    return _reconcile(snapshot, (), now) if status.state.phase in FINAL else reject(snapshot, now)


def _start(snapshot: Snapshot, plugins: Sequence[Base], now: dt.datetime) -> Decision:
    """A new job starts in Pending. If it does not stay there, Pending is written all the same."""
    status = enter_phase(snapshot.job.status, Phase.PENDING, "", "", now)
    decision = decide(with_status(snapshot, status), plugins, now)
    return decision if decision.status.state.phase == Phase.PENDING else Decision(status)


def _reconcile(snapshot: Snapshot, plugins: Sequence[Base], now: dt.datetime) -> Decision:
    # What is, and what has happened.
    before = _observe(snapshot, now)
    matched = match_policies(before.job, occurrences(before, now))

    # What is requested, and what the phase table makes of it.
    request = choose_request(before, matched, now)
    transition = choose_transition(before, request, matched, now)

    # The job after this pass.
    moved = apply_transition(before, transition, matched, now)
    plan = plan_pods(moved, now)
    wait = waiting_reason(moved, plan, before.job.status.state, now)
    moved = replace(moved, ledger=replace(moved.ledger, waiting=wait.uid))
    after = moved.with_status(_status(moved, wait, plugins, now))

    # What the engine has to do.
    status, events = after.job.status, events_for(before, after, transition, wait, plugins)
    end = expiry(after.job)
    if end is not None and end <= now and after.phase is before.phase:
        return Decision(status, (DeleteJob(after.job.uid),), events)
    commands: tuple[EngineCommand, ...] = (
        *(DeletePod(pod.name, pod.uid, after.keeps_finished) for pod in after.pods.outdated),
        *reconcile_owned_objects(after, plugins),
        *plan.create(after.snapshot, plugins),
        *(RemoveCommand(command.metadata.name, command.metadata.uid) for command in stale_commands(after)),
    )
    return Decision(status, commands, events, requeue_after(after, matched, now))


def _observe(snapshot: Snapshot, now: dt.datetime) -> State:
    job = sanitize_status(snapshot.job, now)
    ledger = sanitize_ledger(read_ledger(job.status), job, now)
    if snapshot.records_min_available and not ledger.min_available:
        ledger = replace(ledger, min_available=job.all_min_available)
    return State.of(replace(snapshot, job=job), record_successes(ledger, job, snapshot.pods))


def _status(state: State, wait: Wait, plugins: Sequence[Base], now: dt.datetime) -> JobStatus:
    """The whole status: the phase and version that the state has, why the job waits, the counts and the ledger."""
    status, counts = state.job.status, state.pods.counts
    if state.phase in WANTS_PODS:
        status = enter_phase(status, state.phase, wait.reason, wait.message, now)
    return msgspec.structs.replace(
        status,
        min_available=state.job.spec.min_available,
        task_status_count=counts.task_states(),
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        terminating=counts.terminating,
        unknown=counts.unknown,
        running_duration=running_duration(status, state.ledger),
        controlled_resources=write_ledger(replace(state.ledger, others=volcano_markers(state, plugins))),
    )


def reject(snapshot: Snapshot, now: dt.datetime) -> Decision:
    """A job that was stored without the webhook and is invalid: its status says so; nothing is created or deleted."""
    status = snapshot.job.status
    message = _listed(snapshot.errors)
    is_known = status.state.reason == INVALID_JOB and status.state.message == message
    events = () if is_known else (JobEvent(INVALID_JOB, message, Severity.WARNING),)
    phase = Phase(status.state.phase)
    status = enter_phase(status, phase, INVALID_JOB, message, now)
    # The API server rejects a negative number, which is one of the findings.
    least = max(0, snapshot.job.spec.min_available)
    return Decision(msgspec.structs.replace(status, min_available=least), events=events)


def _listed(errors: Sequence[str]) -> str:
    """All findings, or as many as fit, and the number of the others."""
    listed, room = [], LONGEST_MESSAGE - len("; and 999999999 more")
    for error in errors:
        listed.append(shortened(error, LONGEST_ERROR))
        room -= len(listed[-1]) + len("; ")
        if room < 0:
            listed[-1] = f"and {len(errors) - len(listed) + 1} more"
            break
    return "; ".join(listed)
