"""The one action that a pass takes, requested by the deadline, the spec, a Command or a policy, in this order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from msgspec import Struct

from pumice.model.job import Job
from pumice.model.slot import Indexes
from pumice.model.snapshot import Command
from pumice.model.vocabulary import POLICY_ACTIONS, SUSPENDED, TARGETED_ACTIONS, Action, Event, Phase
from pumice.reconcile.deadlines import active_deadline
from pumice.reconcile.phases import DEADLINE, answers
from pumice.reconcile.policies import Match
from pumice.reconcile.state import POLICY_PHASES, State

# Restarts for these events do not count against maxRetry, unless a kubelet evicted the pod: that is a failure.
FREE_OF_CHARGE = frozenset((Event.POD_EVICTED, Event.JOB_UPDATED))


class Request(Struct, frozen=True):
    action: Action | str
    matches: tuple[Match, ...] = ()  # the policies that requested it
    command: Command | None = None
    reason: str = ""

    @property
    def costs_a_retry(self) -> bool:
        """Whether it counts against `maxRetry`: updates and pods that others removed are not failures of the job."""
        found = (match.occurrence for match in self.matches)
        return any(one.is_failure or one.event not in FREE_OF_CHARGE for one in found)

    def targets(self, job: Job) -> dict[str, Indexes]:
        """The slots that a targeted action restarts."""
        meant: dict[str, set[int]] = {}
        for match in self.matches:
            one = match.occurrence
            task = job.task(one.task)
            if task is None or one.index is None:
                continue
            indexes: set[int] | range = {one.index}
            if match.action is Action.RESTART_TASK:
                indexes = range(task.replicas)
            elif match.action is Action.RESTART_PARTITION and task.partition_policy is not None:
                size = task.partition_policy.partition_size
                first = one.index // size * size
                indexes = range(first, min(first + size, task.replicas))
            meant.setdefault(one.task, set()).update(indexes)
        return {task: frozenset(indexes) for task, indexes in meant.items()}


def choose_request(state: State, matched: Sequence[Match], now: dt.datetime) -> Request | None:
    return _deadline(state, now) or _suspension(state) or _command(state) or _policy(matched, state.phase, now)


def unhandled(matched: Sequence[Match], request: Request | None) -> list[Match]:
    """The matches that this pass does not act on: not due yet, or another action comes first."""
    handled = {id(match) for match in request.matches} if request is not None else set()
    return [match for match in matched if id(match) not in handled]


def stale_commands(state: State) -> list[Command]:
    """Commands to remove: obeyed already, or meant for an earlier job of the same name."""
    obeyed = state.ledger.obeyed
    return [one for one in state.snapshot.commands if one.metadata.uid in obeyed or not is_for(state.job, one)]


def _deadline(state: State, now: dt.datetime) -> Request | None:
    deadline = active_deadline(state.job, state.ledger)
    if deadline is None or now < deadline or state.phase not in POLICY_PHASES:
        return None
    return Request(DEADLINE, reason=DEADLINE)


def _suspension(state: State) -> Request | None:
    suspend = state.job.spec.suspend
    if suspend and state.phase in POLICY_PHASES:
        return Request(Action.ABORT_JOB, reason=SUSPENDED)
    if not suspend and state.ledger.suspended and state.phase in (Phase.ABORTING, Phase.ABORTED):
        return Request(Action.RESUME_JOB)
    return None


def _command(state: State) -> Request | None:
    stale = {command.metadata.uid for command in stale_commands(state)}
    waiting = [command for command in state.snapshot.commands if command.metadata.uid not in stale]
    if not waiting:
        return None
    command = min(waiting, key=lambda command: (command.metadata.creation_timestamp or "", command.metadata.name))
    # A targeted action needs a pod, which a Command cannot name.
    known = command.action in POLICY_ACTIONS and command.action not in TARGETED_ACTIONS
    held = command.action == Action.RESUME_JOB and bool(state.job.spec.suspend)
    return Request(Action(command.action) if known and not held else Action.SYNC_JOB, command=command)


def _policy(matched: Sequence[Match], phase: Phase, now: dt.datetime) -> Request | None:
    """The action that was due first, with all matches that request the same.

    An action that has no effect in this phase (ResumeJob while running) must not hide the others.
    """
    due = [match for match in matched if match.due <= now and answers(phase, match.action)]
    if not due:
        return None
    action = due[0].action
    return Request(action, tuple(match for match in due if match.action is action))


def is_for(job: Job, command: Command) -> bool:
    return command.target is None or not command.target.uid or command.target.uid == job.uid
