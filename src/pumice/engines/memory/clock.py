"""A virtual clock."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

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
