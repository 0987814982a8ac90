"""Coalesces writes of the status: if only counts have changed, a job's status is written once per interval.

Ten pods that start one by one would otherwise cost ten writes, and a write costs an API server more than a pod. The
next pass starts from the status that is held back, so nothing that it records is lost.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from pumice.model.snapshot import JobKey
from pumice.model.status import JobStatus
from pumice.reconcile.decision import Decision
from pumice.runtime.queue import LONG_AGO


@dataclass(slots=True)
class StatusWrites:
    interval: dt.timedelta = dt.timedelta()
    _written: dict[JobKey, dt.datetime] = field(default_factory=dict)
    # The status that is held back, after the stored one.
    _held: dict[JobKey, tuple[JobStatus, JobStatus]] = field(default_factory=dict)

    def current(self, key: JobKey, stored: JobStatus) -> JobStatus:
        """Return the status to start from: the one that is held back, unless another client has written one."""
        base, held = self._held.get(key, (None, stored))
        return held if base == stored else stored

    def hold(self, key: JobKey, stored: JobStatus, decision: Decision, now: dt.datetime) -> dt.datetime | None:
        """Hold the decided status back if it can wait. Return until when; None if it must be written now."""
        until = self._written.get(key, LONG_AGO) + self.interval
        # A clock that was set back must not hold anything back for long.
        if now < until <= now + self.interval and _can_wait(stored, decision):
            self._held[key] = (stored, decision.status)
            return until
        return None

    def written(self, key: JobKey, now: dt.datetime) -> None:
        if self.interval:
            self._written[key] = now
        self.release(key)

    def release(self, key: JobKey) -> None:
        """Drop what is held back: it was written, or the stored status is right again."""
        self._held.pop(key, None)

    def forget(self, key: JobKey) -> None:
        self._written.pop(key, None)
        self.release(key)


def _can_wait(before: JobStatus, decision: Decision) -> bool:
    """Whether only counts and the ledger have changed, and nothing has to be done that relies on the written status."""
    after = decision.status
    return (
        not (decision.commands or decision.events)
        and (before.state, before.conditions) == (after.state, after.conditions)
        and (before.version, before.retry_count) == (after.version, after.retry_count)
    )
