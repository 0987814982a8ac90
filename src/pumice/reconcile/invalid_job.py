"""A job that got in without the webhook and cannot be run: it says so and waits; what runs already is left alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec

from pumice.model.snapshot import Snapshot
from pumice.model.vocabulary import Phase
from pumice.reconcile.decision import Decision, JobEvent, Severity
from pumice.reconcile.transition import LONGEST_MESSAGE, entered, shortened

INVALID_JOB = "InvalidJob"
# A finding quotes the value that it found, and anybody may write a long one.
LONGEST_FAULT: Final = 1_000


def refused(snapshot: Snapshot, now: dt.datetime) -> Decision:
    status = snapshot.job.status
    message = _listed(snapshot.faults)
    told_already = status.state.reason == INVALID_JOB and status.state.message == message
    told = () if told_already else (JobEvent(INVALID_JOB, message, Severity.WARNING),)
    phase = Phase(status.state.phase)
    status = entered(status, phase, INVALID_JOB, message, now)
    # A number below nothing is one of the faults, and nobody would store it.
    least = max(0, snapshot.job.spec.min_available)
    return Decision(msgspec.structs.replace(status, min_available=least), events=told)


def _listed(faults: Sequence[str]) -> str:
    """All of them, or as many as there is room for, and how many more there are."""
    told, room = [], LONGEST_MESSAGE - len("; and 999999999 more")
    for fault in faults:
        told.append(shortened(fault, LONGEST_FAULT))
        room -= len(told[-1]) + len("; ")
        if room < 0:
            told[-1] = f"and {len(faults) - len(told) + 1} more"
            break
    return "; ".join(told)
