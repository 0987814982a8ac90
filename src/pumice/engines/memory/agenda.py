"""What is going to happen, by moment; things of one moment happen in the order in which they were planned."""

from __future__ import annotations

import datetime as dt
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Agenda:
    _heap: list[tuple[dt.datetime, int, Callable[[], None]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)

    def plan(self, moment: dt.datetime, act: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (moment, next(self._order), act))

    def next_moment(self) -> dt.datetime | None:
        return self._heap[0][0] if self._heap else None

    def play_until(self, now: dt.datetime) -> None:
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
