"""The events that a pass emits; each change is reported once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pumice.diagnosis.pod_waits import CLAIM_MISSING, UNSCHEDULABLE
from pumice.model.snapshot import Command
from pumice.model.vocabulary import Action, Event, Phase
from pumice.plugins.base import Base
from pumice.reconcile.decision import JobEvent, Severity
from pumice.reconcile.owned_objects import replaced_secrets
from pumice.reconcile.pod_creation import RESTARTING
from pumice.reconcile.requested_action import Request, is_for, stale_commands
from pumice.reconcile.state import WANTS_PODS, State
from pumice.reconcile.transition import Transition, shortened
from pumice.reconcile.waiting_pods import Wait, is_same_cause

EXECUTE_ACTION = "ExecuteAction"
# The reasons of events, where they are not that of the status: those that Volcano uses.
TEXT_REASONS = {CLAIM_MISSING: "PVCError", UNSCHEDULABLE: "PodGroupPending"}
# Of the unknown action of a Command, which may be of any length.
_SHOWN = 40
_WARNINGS = frozenset((Phase.FAILED, Phase.TERMINATED))


def events_for(
    before: State, after: State, transition: Transition, wait: Wait, plugins: Sequence[Base]
) -> tuple[JobEvent, ...]:
    return (
        *_of_request(before, after, transition.request),
        *_of_phase(before, after, transition.reason.cause),
        *_of_waiting(before, after, wait),
        *replaced_secrets(after, plugins),
    )


def _of_request(before: State, after: State, request: Request | None) -> Iterator[JobEvent]:
    for command in stale_commands(before):
        if not is_for(before.job, command):
            message = f"Command {command.metadata.name} is for an earlier job of this name and is ignored"
            yield JobEvent("CommandIgnored", message, Severity.WARNING)
    if request is None:
        return
    if request.command is not None:
        yield from _of_command(request.command, request.action, changed=_changed(before, after))
    elif request.matches and _changed(before, after):
        match = request.matches[0]
        yield JobEvent(
            EXECUTE_ACTION,
            after.job.status.state.message,
            pod=match.occurrence.short_name,
            policy=match.path,
            event=str(match.occurrence.event),
            action=str(request.action),
        )


def _of_command(command: Command, action: Action | str, *, changed: bool) -> Iterator[JobEvent]:
    name = command.metadata.name
    yield JobEvent(Event.COMMAND_ISSUED, f"Command {name}: {command.action}", action=command.action)
    if action != command.action:
        why = "spec.suspend is true" if command.action == Action.RESUME_JOB else "not an action for a whole job"
        yield JobEvent(
            "CommandIgnored", f"Command {name}: {shortened(command.action, _SHOWN)}: {why}", Severity.WARNING
        )
    elif changed:
        yield JobEvent(EXECUTE_ACTION, f"{action} was requested by Command {name}", action=str(action))


def _changed(before: State, after: State) -> bool:
    was, is_ = before.job.status, after.job.status
    return (was.state.phase, was.version, was.retry_count) != (is_.state.phase, is_.version, is_.retry_count)


def _of_phase(before: State, after: State, cause: str) -> Iterator[JobEvent]:
    state = after.job.status.state
    if state.phase != before.job.status.state.phase:
        severity = Severity.WARNING if Phase(state.phase) in _WARNINGS else Severity.NORMAL
        yield JobEvent(state.phase, state.message or f"the job is {state.phase}", severity, cause=cause)


def _of_waiting(before: State, after: State, wait: Wait) -> Iterator[JobEvent]:
    """What a job waits for: a claim, its scheduler, a pod, a node, or an API server that rejects its requests."""
    reported, wants_pods = before.job.status.state, after.phase in WANTS_PODS
    if not wants_pods:
        yield from (JobEvent(failure.reason, failure.message, Severity.WARNING) for failure in after.snapshot.failures)
    if wait.uid:
        is_known = wait.uid == before.ledger.waiting
        if not is_known or (wants_pods and not is_same_cause(wait.reason, reported.reason)):
            yield JobEvent(wait.reason, wait.message, Severity.WARNING)
    # The restart itself was reported when it began.
    elif wait.reason not in ("", RESTARTING) and (wait.reason, wait.message) != (reported.reason, reported.message):
        yield JobEvent(TEXT_REASONS.get(wait.reason, wait.reason), wait.said or wait.message, Severity.WARNING)
