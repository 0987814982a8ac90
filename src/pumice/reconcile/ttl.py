"""ttlSecondsAfterFinished: a finished job is removed that long after its end."""

from __future__ import annotations

import datetime as dt

from pumice.model.job import Job
from pumice.model.timestamps import after, read_time
from pumice.model.vocabulary import Phase
from pumice.reconcile.phases import FINAL


def expiry(job: Job) -> dt.datetime | None:
    """When the job is to be removed; None if never, or not finished."""
    state, ttl = job.status.state, job.spec.ttl_seconds_after_finished
    ended = read_time(state.last_transition_time)
    if ttl is None or Phase(state.phase) not in FINAL or ended is None:
        return None
    return after(ended, ttl)
