"""Corrects impossible values in a status: other programs may write there, and clocks are set back.

A version beyond all others, a timestamp in the future or a restart of pods that do not exist yet would be acted on in
every pass, or be waited for in vain. The corrected values are written with the rest of the pass.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice.model.job import Job, JobCondition, JobStatus
from pumice.model.units import read_time, to_seconds
from pumice.model.vocabulary import Phase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import TABLE

# Larger numbers do not fit into the annotation of a pod, nor one more into the status.
MOST_RUNS: Final = 999_999_998


def sanitize_status(job: Job, now: dt.datetime) -> Job:
    """The job with a possible status; the same object if nothing is wrong."""
    status = job.status
    since = read_time(status.state.last_transition_time)
    wrong_time = status.state.last_transition_time is not None and (since is None or since > now)
    if (
        0 <= status.version <= MOST_RUNS
        and 0 <= status.retry_count <= MOST_RUNS
        and not wrong_time
        and len(status.conditions) <= len(Phase)
        and all(condition.status in TABLE for condition in status.conditions)
    ):
        return job
    moment = to_seconds(now) if wrong_time else status.state.last_transition_time
    corrected: JobStatus = msgspec.structs.replace(
        status,
        state=msgspec.structs.replace(status.state, last_transition_time=moment),
        version=status.version if 0 <= status.version <= MOST_RUNS else 0,
        retry_count=status.retry_count if 0 <= status.retry_count <= MOST_RUNS else 0,
        conditions=_known(status.conditions),
    )
    return msgspec.structs.replace(job, status=corrected)


def sanitize_ledger(ledger: Ledger, job: Job, now: dt.datetime) -> Ledger:
    """The ledger without values later than now, by the clock or by the counters of the status."""
    status, restart = job.status, ledger.restart
    if restart is not None and restart.retry > status.retry_count:
        restart = replace(restart, retry=status.retry_count)
    return replace(
        ledger,
        generation=min(ledger.generation, job.metadata.generation),
        void=min(ledger.void, status.version),
        restart=restart,
        evicted=_not_later(ledger.evicted, now),
        noticed=_not_later(ledger.noticed, now),
        unknown_since=min(ledger.unknown_since, now) if ledger.unknown_since is not None else None,
        first_running=min(ledger.first_running, now) if ledger.first_running is not None else None,
    )


def _not_later(moments: Mapping[str, dt.datetime], now: dt.datetime) -> Mapping[str, dt.datetime]:
    return {what: min(moment, now) for what, moment in moments.items()} if moments else moments


def _known(conditions: list[JobCondition]) -> list[JobCondition]:
    """Each known phase once, with the time of its last condition."""
    latest = {condition.status: condition for condition in conditions if condition.status in TABLE}
    return list(latest.values())
