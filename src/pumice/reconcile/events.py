"""What people are told about a pass, as events: never more than once for one thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pumice.model.command import Command
from pumice.model.snapshot import Snapshot
from pumice.model.vocabulary import Action, Phase
from pumice.plugins.base import Base
from pumice.reconcile.decision import JobEvent, Severity
from pumice.reconcile.ledger import read_ledger
from pumice.reconcile.owned_objects import lost_keys
from pumice.reconcile.pod_creation import CLAIM_MISSING, RESTARTING, UNSCHEDULABLE
from pumice.reconcile.pod_membership import WANTED
from pumice.reconcile.requested_action import Order, stale_commands
from pumice.reconcile.transition import shortened

EXECUTE_ACTION = "ExecuteAction"
COMMAND_ISSUED = "CommandIssued"
# What people and programs who know Volcano look for.
_EVENT_REASONS = {CLAIM_MISSING: "PVCError", UNSCHEDULABLE: "PodGroupPending"}
# Of an action that is none: anybody may write anything there.
_SHOWN = 40
_SAD = frozenset((Phase.FAILED, Phase.TERMINATED))


def events_for(before: Snapshot, after: Snapshot, order: Order | None, plugins: Sequence[Base]) -> tuple[JobEvent, ...]:
    return (
        *_of_order(before, after, order),
        *_of_phase(before, after),
        *_of_waiting(before, after),
        *lost_keys(after, plugins),
    )


def _of_order(before: Snapshot, after: Snapshot, order: Order | None) -> Iterator[JobEvent]:
    for command in stale_commands(before, read_ledger(before.job.status)):
        if command.target is not None and command.target.uid not in ("", before.job.uid):
            message = f"Command {command.metadata.name} was meant for an earlier job of this name and is ignored"
            yield JobEvent("CommandIgnored", message, Severity.WARNING)
    if order is None:
        return
    if order.command is not None:
        yield from _of_command(order.command, order.action, changed=_changed(before, after))
    elif order.matches and _changed(before, after):
        match = order.matches[0]
        yield JobEvent(
            EXECUTE_ACTION,
            after.job.status.state.message,
            pod=match.occurrence.short_name,
            policy=match.path,
            event=str(match.occurrence.event),
            action=str(order.action),
        )


def _of_command(command: Command, action: Action | str, *, changed: bool) -> Iterator[JobEvent]:
    name = command.metadata.name
    yield JobEvent(COMMAND_ISSUED, f"Command {name}: {command.action}", action=command.action)
    if action != command.action:
        why = "spec.suspend is true" if command.action == Action.RESUME_JOB else "that is no action of a whole job"
        yield JobEvent(
            "CommandIgnored", f"Command {name}: {shortened(command.action, _SHOWN)}: {why}", Severity.WARNING
        )
    elif changed:
        yield JobEvent(EXECUTE_ACTION, f"{action} was asked for by Command {name}", action=str(action))


def _changed(before: Snapshot, after: Snapshot) -> bool:
    was, is_ = before.job.status, after.job.status
    return (was.state.phase, was.version, was.retry_count) != (is_.state.phase, is_.version, is_.retry_count)


def _of_phase(before: Snapshot, after: Snapshot) -> Iterator[JobEvent]:
    state = after.job.status.state
    if state.phase != before.job.status.state.phase:
        severity = Severity.WARNING if Phase(state.phase) in _SAD else Severity.NORMAL
        yield JobEvent(state.phase, state.message or f"the job is {state.phase}", severity)


def _of_waiting(before: Snapshot, after: Snapshot) -> Iterator[JobEvent]:
    """What a job that wants pods waits for: a claim, its scheduler, an API that refuses."""
    state, told = after.job.status.state, before.job.status.state
    if Phase(state.phase) in WANTED:
        # That it restarts was told when it began to.
        if state.reason not in ("", RESTARTING) and (state.reason, state.message) != (told.reason, told.message):
            yield JobEvent(_EVENT_REASONS.get(state.reason, state.reason), state.message, Severity.WARNING)
    else:
        yield from (JobEvent(trouble.reason, trouble.message, Severity.WARNING) for trouble in after.troubles)
