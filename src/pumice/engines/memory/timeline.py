"""Virtual time, and planned events by time; those of one moment happen in the order in which they were planned."""

from __future__ import annotations

import datetime as dt
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# The start of virtual time.
EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


@dataclass(slots=True)
class VirtualClock:
    now: dt.datetime = EPOCH

    def __call__(self) -> dt.datetime:
        return self.now

    def move_to(self, moment: dt.datetime) -> None:
        self.now = max(self.now, moment)

    @property
    def elapsed(self) -> float:
        return (self.now - EPOCH).total_seconds()


@dataclass(slots=True)
class Timeline:
    _heap: list[tuple[dt.datetime, int]] = field(default_factory=list)
    _acts: dict[int, Callable[[], None]] = field(default_factory=dict)  # those that were not cancelled
    _order: Iterator[int] = field(default_factory=itertools.count)

    def plan(self, moment: dt.datetime, act: Callable[[], None]) -> int:
        """Return a number for `cancel`."""
        number = next(self._order)
        self._acts[number] = act
        heapq.heappush(self._heap, (moment, number))
        return number

    def cancel(self, number: int) -> None:
        """Cancel an event; no effect if it has happened."""
        self._acts.pop(number, None)

    def next_moment(self) -> dt.datetime | None:
        while self._heap and self._heap[0][1] not in self._acts:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def play_until(self, now: dt.datetime) -> None:
        while (moment := self.next_moment()) is not None and moment <= now:
            self._acts.pop(heapq.heappop(self._heap)[1])()
