"""A job that got in without the webhook and cannot be run: it says so and waits; what runs already is left alone."""

from __future__ import annotations

import datetime as dt

import msgspec

from pumice.model.snapshot import Snapshot
from pumice.model.vocabulary import Phase
from pumice.reconcile.decision import Decision, JobEvent, Severity
from pumice.reconcile.moving import entered

INVALID_JOB = "InvalidJob"


def refused(snapshot: Snapshot, now: dt.datetime) -> Decision:
    status = snapshot.job.status
    message = "; ".join(snapshot.faults)
    told_already = status.state.reason == INVALID_JOB and status.state.message == message
    told = () if told_already else (JobEvent(INVALID_JOB, message, Severity.WARNING),)
    phase = Phase(status.state.phase)
    status = entered(status, phase, INVALID_JOB, message, now)
    return Decision(msgspec.structs.replace(status, min_available=snapshot.job.spec.min_available), events=told)
