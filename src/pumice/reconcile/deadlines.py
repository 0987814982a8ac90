"""The moments at which a job must be reconciled although nothing has changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pumice.model.job import Job
from pumice.model.units import after, read_time
from pumice.model.vocabulary import Phase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import FINAL
from pumice.reconcile.policies import Match
from pumice.reconcile.state import State
from pumice.reconcile.waiting_pods import moments_of_pods


def active_deadline(job: Job, ledger: Ledger) -> dt.datetime | None:
    """When activeDeadlineSeconds end: they count from the first Running."""
    seconds = job.spec.active_deadline_seconds
    if seconds is None or ledger.first_running is None:
        return None
    return after(ledger.first_running, seconds)


def expiry(job: Job) -> dt.datetime | None:
    """When ttlSecondsAfterFinished end; None if the job has none or is not finished."""
    state, ttl = job.status.state, job.spec.ttl_seconds_after_finished
    ended = read_time(state.last_transition_time)
    if ttl is None or Phase(state.phase) not in FINAL or ended is None:
        return None
    return after(ended, ttl)


def requeue_after(state: State, matched: Sequence[Match], now: dt.datetime) -> dt.timedelta | None:
    """How long until the first moment that is not due yet; an expiry may be due, since its phase is written first."""
    end, deadline = expiry(state.job), active_deadline(state.job, state.ledger)
    # When the pods of the run before outlive their grace period, new ones are created without any event.
    graces = [pod.deleted_at for pod in state.previous_run if pod.deleted_at is not None]
    moments = [*(match.due for match in matched), *moments_of_pods(state)]
    if deadline is not None:
        moments.append(deadline)
    if graces:
        moments.append(max(graces))
    future = [moment for moment in moments if moment > now]
    if end is not None:
        future.append(end)
    return min(future) - now if future else None
