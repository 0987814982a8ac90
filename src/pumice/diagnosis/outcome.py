"""The outcome of a run: one word that says how it stands or how it ended, whatever phase its Job has, and who asked.

A phase says what the controller did last: a Job that a policy terminates after a crash and one that its user stops are
both `Terminated`. The outcome separates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from pumice.model.job import JobState, JobStatus
from pumice.model.vocabulary import COMMAND, SUSPENDED, Phase


class Outcome(StrEnum):
    HELD = "Held"  # it waits for `resume`, and never began
    WAITING = "Waiting"  # for its resources
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    STOPPING = "Stopping"
    SUSPENDED = "Suspended"  # by a person; it can be resumed
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"  # a person asked for it


class StopReason(StrEnum):
    """The reasons of stops that a person asks for. All others are failures."""

    STOPPED = "Stopped"  # `stop`, a program, the page
    KILLED = "Killed"  # by force
    INTERRUPTED = "Interrupted"
    TERMINATED = "Terminated"
    HUNG_UP = "HungUp"
    OUTPUT_CLOSED = "OutputClosed"


RESUMED_BY_YOU: Final = "resumed by you"
SUSPENDED_BY_YOU: Final = "suspended by you"
STOPPED_BY_YOU: Final = "stopped by you"
HELD_BY_A_PERSON: Final = "a person suspended it"  # on a cluster, where nobody knows who
# By whom a run was stopped, or because of what.
_BY: Final[Mapping[str, str]] = {
    StopReason.STOPPED: "by you",
    StopReason.KILLED: "by you",
    StopReason.INTERRUPTED: "by Ctrl-C",
    StopReason.TERMINATED: "by SIGTERM",
}
_BECAUSE: Final[Mapping[str, str]] = {
    StopReason.HUNG_UP: "its terminal was closed",
    StopReason.OUTPUT_CLOSED: "its output was closed",
}
_ASKED: Final = frozenset({*StopReason, SUSPENDED, COMMAND})
_BEGINNING: Final = frozenset({"", Phase.PENDING, Phase.RUNNING, Phase.RESTARTING})


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the outcome of a run, or of a Job on a cluster, follows from."""

    phase: str  # of the Job; empty if it has none yet
    ended: bool = False  # and cannot go on
    started: bool = True  # it has its resources
    needs_resume: bool = False  # it goes on only after `resume`
    stopping: bool = False  # a request to end it was accepted
    asked: bool = False  # a person asked that it ends, or suspended it


def outcome(facts: Facts) -> Outcome:
    if facts.ended:
        if facts.phase == Phase.COMPLETED:
            return Outcome.SUCCEEDED
        return Outcome.STOPPED if facts.asked else Outcome.FAILED
    if facts.stopping:
        return Outcome.STOPPING
    if not facts.started:
        waits = Outcome.SUSPENDED if facts.asked else Outcome.HELD
        return waits if facts.needs_resume else Outcome.WAITING
    if facts.phase not in _BEGINNING:
        # Its last pods end.
        return Outcome.STOPPING
    known = {Phase.RUNNING: Outcome.RUNNING, Phase.RESTARTING: Outcome.RESTARTING}
    return known.get(Phase(facts.phase or Phase.PENDING), Outcome.STARTING)


def is_asked(reason: str) -> bool:
    """Return whether a run or a Job that ended for this reason was ended or suspended by a person."""
    return reason in _ASKED


def stop_text(reason: str, message: str = "") -> str:
    """Return who or what stopped a run, in words. `message` is what the stop itself says, such as of a timeout."""
    known = f"stopped {_BY[reason]}" if reason in _BY else _BECAUSE.get(reason)
    return known or message or (SUSPENDED_BY_YOU if reason == SUSPENDED else reason)


def stop_sentence(name: str, reason: str) -> str:
    """`train was stopped by Ctrl-C`, or `train was stopped: its terminal was closed`."""
    because = f": {_BECAUSE[reason]}" if reason in _BECAUSE else ""
    return f"{name} was stopped {_BY.get(reason, '')}".rstrip() + because


def held_text(state: JobState) -> str:
    """Return what the state of a suspended Job on a cluster says, in words: a Command says that a person asked."""
    return HELD_BY_A_PERSON if state.reason == COMMAND else state.message


def phase_text(status: JobStatus, stop: str) -> str:
    """Return why a Job of this machine is in its phase, in words; after a Command, by the phases to which that led.

    `stop` is the text of the stop that the run had accepted; a restart and a continuation have none.
    """
    if status.state.reason != COMMAND:
        return status.state.message
    match [each.status for each in status.conditions[:-1]], status.state.phase:
        case [*_, Phase.ABORTING | Phase.ABORTED], Phase.RESTARTING | Phase.PENDING | Phase.RUNNING:
            return RESUMED_BY_YOU
        case _, Phase.ABORTING | Phase.ABORTED:
            return SUSPENDED_BY_YOU
        case _, Phase.TERMINATING | Phase.TERMINATED:
            return stop or STOPPED_BY_YOU
    return "restarted by you"
