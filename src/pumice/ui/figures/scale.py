"""Positions on a time axis in percent, with the wait before the first pod folded; ticks of the axis."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

from pumice.ui.words import DAY, HOUR, MINUTE

FOLD: Final = 6.0  # percent of the picture for a wait that would take more
FOLD_FROM: Final = 0.02  # of the run: a shorter wait is not drawn
STEPS: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30),
    *(count * MINUTE for count in (1, 2, 5, 10, 20, 30)),
    *(count * HOUR for count in (1, 2, 4, 8, 12)),
    *(count * DAY for count in (1, 2, 5, 10)),
)
TICKS: Final = 7


@dataclass(frozen=True, slots=True)
class Scale:
    """From `begin` at `left` percent to `end` at 100; what is earlier is folded into the part on the left."""

    created: dt.datetime
    begin: dt.datetime
    end: dt.datetime
    left: float

    @classmethod
    def of(cls, created: dt.datetime, begin: dt.datetime, end: dt.datetime) -> Scale:
        """Return the scale of a run; the wait is folded if it is worth a picture."""
        span = max(0.1, (end - begin).total_seconds())
        wait = (begin - created).total_seconds()
        folded = wait > max(1.0, FOLD_FROM * span)
        return cls(created, begin, max(end, begin + dt.timedelta(seconds=0.1)), FOLD if folded else 0.0)

    @property
    def seconds(self) -> float:
        """Return how long the picture is."""
        return (self.end - self.begin).total_seconds()

    def at(self, moment: dt.datetime) -> float:
        """Return the position of a moment, within 0 and 100."""
        if moment <= self.begin:
            wait = (self.begin - self.created).total_seconds()
            share = (moment - self.created).total_seconds() / wait if wait > 0 else 0.0
            return round(self.left * 0.95 * max(0.0, share) if moment < self.begin else self.left, 3)
        part = (moment - self.begin).total_seconds() / self.seconds
        return round(self.left + min(1.0, part) * (100 - self.left), 3)

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and words of the axis, from 0: `2 m`, `0 h 30`."""
        step = next((step for step in STEPS if self.seconds / step <= TICKS), STEPS[-1])
        count = int(self.seconds / step)
        return [
            (self.left + (100 - self.left) * index * step / self.seconds, tick_words(index * step))
            for index in range(count + 1)
        ]


def tick_words(seconds: float) -> str:
    """Return a round time from the start."""
    if seconds == 0:
        return "0"
    if seconds < MINUTE:
        return f"{seconds:g} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} m" if whole % MINUTE == 0 else f"{whole // MINUTE}:{whole % MINUTE:02}"
    if whole < 2 * DAY:
        return f"{whole // HOUR} h" if whole % HOUR == 0 else f"{whole // HOUR} h {whole % HOUR // MINUTE}"
    return f"{whole // DAY} d"
