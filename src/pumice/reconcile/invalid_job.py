"""A job that was stored without the webhook and is invalid: its status says so, and nothing is created or deleted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec

from pumice.model.snapshot import Snapshot
from pumice.model.vocabulary import INVALID_JOB, Phase
from pumice.reconcile.decision import Decision, JobEvent, Severity
from pumice.reconcile.transition import LONGEST_MESSAGE, enter_phase, shortened

# A finding quotes the value that it found, which may be of any length.
LONGEST_ERROR: Final = 1_000


def reject(snapshot: Snapshot, now: dt.datetime) -> Decision:
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
