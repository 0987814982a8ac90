"""Coalesces writes of the status: if only counts have changed, a job's status is written once per interval.

Ten pods that start one by one would otherwise cost ten writes, and a write costs an API server more than a pod. The
next pass starts from the status that is held back, so nothing that it records is lost.
"""

from __future__ import annotations

import datetime as dt

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.model.job import JobStatus
from pumice.model.snapshot import JobKey
from pumice.reconcile.decision import Decision
from pumice.reconcile.events import TEXT_REASONS
from pumice.runtime.queue import LONG_AGO


class StatusWrites(Struct):
    interval: dt.timedelta = dt.timedelta()
    text_interval: dt.timedelta = dt.timedelta()  # of a message that changes while its reason stays
    _told: dict[JobKey, dt.datetime] = field(default_factory=dict)
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

    def quiet(
        self, key: JobKey, stored: JobStatus, decision: Decision, now: dt.datetime
    ) -> tuple[Decision, dt.datetime | None]:
        """Keep the message of a status that would change too soon after another; return until when.

        A scheduler counts pods in its text again and again, and each change costs a write and an event.
        """
        before, after = stored.state, decision.status.state
        if before == after:
            return decision, None
        until = self._told.get(key, LONG_AGO) + self.text_interval
        is_text = before.message and after.message and replace(after, message=before.message) == before
        if not (is_text and now < until <= now + self.text_interval):
            if self.text_interval:
                self._told[key] = now
            return decision, None
        status = replace(decision.status, state=before)
        events = tuple(each for each in decision.events if each.reason != TEXT_REASONS.get(after.reason, after.reason))
        return replace(decision, status=status, events=events), until

    def written(self, key: JobKey, now: dt.datetime) -> None:
        if self.interval:
            self._written[key] = now
        self.release(key)

    def release(self, key: JobKey) -> None:
        """Drop what is held back: it was written, or the stored status is right again."""
        self._held.pop(key, None)

    def forget(self, key: JobKey) -> None:
        self._written.pop(key, None)
        self._told.pop(key, None)
        self.release(key)


def _can_wait(before: JobStatus, decision: Decision) -> bool:
    """Whether only counts and the ledger have changed, and nothing has to be done that relies on the written status."""
    after = decision.status
    return (
        not (decision.commands or decision.events)
        and (before.state, before.conditions) == (after.state, after.conditions)
        and (before.version, before.retry_count) == (after.version, after.retry_count)
    )
