"""What is asked of a job in this pass.

By its deadline, by its spec, by a Command, or by a policy; at most one thing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from pumice.model.command import Command
from pumice.model.job import Job
from pumice.model.slot import Indexes
from pumice.model.snapshot import Snapshot
from pumice.model.timestamps import after
from pumice.model.vocabulary import POLICY_ACTIONS, TARGETED_ACTIONS, Action, Event, Phase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import DEADLINE, answers
from pumice.reconcile.policies import Match

SUSPENDED = "Suspended"
# While a job winds down or is over, pods may do what they like: nothing that happens to them is news.
ATTENTIVE = frozenset((Phase.PENDING, Phase.RUNNING, Phase.RESTARTING))
FREE_OF_CHARGE = frozenset((Event.POD_EVICTED, Event.JOB_UPDATED))


@dataclass(frozen=True, slots=True)
class Order:
    action: Action | str
    matches: tuple[Match, ...] = ()  # what led to it, if policies did
    command: Command | None = None
    reason: str = ""

    @property
    def costs_a_retry(self) -> bool:
        """Whether `maxRetry` pays for it: evictions and updates are nobody's failure."""
        return any(match.occurrence.event not in FREE_OF_CHARGE for match in self.matches)

    def targets(self, job: Job) -> dict[str, Indexes]:
        """The slots that a targeted action means."""
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


def choose(snapshot: Snapshot, ledger: Ledger, found: Sequence[Match], now: dt.datetime) -> Order | None:
    """The first of these that has something to say."""
    phase = Phase(snapshot.job.status.state.phase)
    return (
        _deadline(snapshot.job, ledger, phase, now)
        or _suspension(snapshot.job, ledger, phase)
        or _command(snapshot, ledger)
        or _policy(found, phase, now)
    )


def left_open(found: Sequence[Match], order: Order | None) -> list[Match]:
    """What a policy has yet to deal with: not due, or something else comes first in this pass."""
    chosen = {id(match) for match in order.matches} if order is not None else set()
    return [match for match in found if id(match) not in chosen]


def wake_up(job: Job, ledger: Ledger, found: Sequence[Match], now: dt.datetime) -> dt.datetime | None:
    """When something becomes due that is not due yet."""
    moments = [match.due for match in found if match.due > now]
    deadline = deadline_of(job, ledger)
    if deadline is not None and deadline > now:
        moments.append(deadline)
    return min(moments, default=None)


def deadline_of(job: Job, ledger: Ledger) -> dt.datetime | None:
    seconds = job.spec.active_deadline_seconds
    if seconds is None or ledger.first_running is None:
        return None
    return after(ledger.first_running, seconds)


def stale_commands(snapshot: Snapshot, ledger: Ledger) -> list[Command]:
    """Commands to be removed without doing anything more: obeyed already, or meant for an earlier job of this name."""
    return [
        command
        for command in snapshot.commands
        if command.metadata.uid in ledger.obeyed or not _is_for(snapshot.job, command)
    ]


def _deadline(job: Job, ledger: Ledger, phase: Phase, now: dt.datetime) -> Order | None:
    deadline = deadline_of(job, ledger)
    if deadline is None or now < deadline or phase not in ATTENTIVE:
        return None
    return Order(DEADLINE, reason=DEADLINE)


def _suspension(job: Job, ledger: Ledger, phase: Phase) -> Order | None:
    if job.spec.suspend and phase in ATTENTIVE:
        return Order(Action.ABORT_JOB, reason=SUSPENDED)
    if not job.spec.suspend and ledger.suspended and phase in (Phase.ABORTING, Phase.ABORTED):
        return Order(Action.RESUME_JOB)
    return None


def _command(snapshot: Snapshot, ledger: Ledger) -> Order | None:
    stale = {command.metadata.uid for command in stale_commands(snapshot, ledger)}
    waiting = [command for command in snapshot.commands if command.metadata.uid not in stale]
    waiting.sort(key=lambda command: (command.metadata.creation_timestamp or "", command.metadata.name))
    for command in waiting:
        # A targeted action needs a pod, which a Command cannot name; any other word is nobody's action.
        known = command.action in POLICY_ACTIONS and command.action not in TARGETED_ACTIONS
        held = command.action == Action.RESUME_JOB and bool(snapshot.job.spec.suspend)
        return Order(Action(command.action) if known and not held else Action.SYNC_JOB, command=command)
    return None


def _policy(found: Sequence[Match], phase: Phase, now: dt.datetime) -> Order | None:
    """The action that is due for longest, and with it all that ask for the same.

    What means nothing in this phase (to resume what runs) is passed over: it would stand in the way of the others.
    """
    due = [match for match in found if match.due <= now and answers(phase, match.action)]
    if not due:
        return None
    action = due[0].action
    return Order(action, tuple(match for match in due if match.action is action))


def _is_for(job: Job, command: Command) -> bool:
    return command.target is None or not command.target.uid or command.target.uid == job.uid
