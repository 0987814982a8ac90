"""The work queue: keys of jobs to reconcile, now or at some time.

A key that is added several times is taken once. A key that is being reconciled is not taken a second time; if it is
added meanwhile, it is taken again afterwards. A key that failed returns after exponential backoff. Time is a parameter,
so the queue works with real and with virtual clocks.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Callable

from msgspec import Struct, field

from pumice.model.snapshot import JobKey

FIRST_DELAY = dt.timedelta(milliseconds=5)
LONGEST_DELAY = dt.timedelta(seconds=60)
# After a failure an added key waits up to this time: the failure itself may be what adds it.
LONGEST_HOLD = dt.timedelta(seconds=1)
LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)
# Expired rests are dropped when there are more than this.
MOST_RESTING = 1000


class KeyQueue(Struct):
    on_add: Callable[[], None] = lambda: None  # called when a key becomes ready or gets an earlier appointment
    _ready: dict[JobKey, None] = field(default_factory=dict)  # in the order in which they were added
    _serving: set[JobKey] = field(default_factory=set)
    _again: set[JobKey] = field(default_factory=set)
    _due: dict[JobKey, dt.datetime] = field(default_factory=dict)
    _heap: list[tuple[dt.datetime, JobKey]] = field(default_factory=list)
    _failures: dict[JobKey, int] = field(default_factory=dict)
    _resting: dict[JobKey, dt.datetime] = field(default_factory=dict)
    _latest: dt.datetime = LONG_AGO  # time seen

    def __len__(self) -> int:
        """The number of keys that are ready."""
        return len(self._ready)

    def add(self, key: JobKey) -> None:
        if key in self._serving:
            self._again.add(key)
        elif key in self._resting:
            self.add_at(key, self._resting[key])
        else:
            self._ready[key] = None
            self.on_add()

    def add_at(self, key: JobKey, moment: dt.datetime) -> None:
        """Add the key at this time, unless it is due earlier."""
        if key not in self._due or moment < self._due[key]:
            self._due[key] = moment
            heapq.heappush(self._heap, (moment, key))
            self.on_add()

    def take(self, now: dt.datetime) -> JobKey | None:
        self._promote_due(now)
        for key in self._ready:
            del self._ready[key]
            self._serving.add(key)
            return key
        return None

    def done(self, key: JobKey, rest: dt.datetime | None = None) -> None:
        """The key was reconciled. It is not taken again before its rest ends."""
        self._failures.pop(key, None)
        if rest is not None:
            self._resting[key] = rest
        self._release(key)

    def failed(self, key: JobKey, now: dt.datetime, spread: float = 1.0) -> None:
        """The key failed: it returns after exponential backoff, times `spread`."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(FIRST_DELAY * 2 ** min(count, 20), LONGEST_DELAY)
        self.add_at(key, now + delay * spread)
        self._resting[key] = now + min(delay, LONGEST_HOLD)
        self._release(key)

    def next_due(self) -> dt.datetime | None:
        """When the next key is ready; a time in the past if one is ready now."""
        if self._ready:
            return LONG_AGO
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _promote_due(self, now: dt.datetime) -> None:
        if now < self._latest:
            # The clock was set back: shift all times. To reconcile early does no harm.
            by = self._latest - now
            self._due = {key: moment - by for key, moment in self._due.items()}
            self._resting = {key: end - by for key, end in self._resting.items()}
            self._heap = [(moment, key) for key, moment in self._due.items()]
            heapq.heapify(self._heap)
        self._latest = now
        while self._heap and self._heap[0][0] <= now:
            moment, key = heapq.heappop(self._heap)
            if self._due.get(key) == moment:
                del self._due[key]
                self._resting.pop(key, None)
                self.add(key)
        if len(self._resting) > MOST_RESTING:
            self._resting = {key: end for key, end in self._resting.items() if end > now}

    def _release(self, key: JobKey) -> None:
        self._serving.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
