"""The clock of a run: monotonic, whatever the clock of the machine is set to, and stopped while the machine sleeps.

All timeouts use it. With the wall clock, setting the clock back by an hour would delay them by an hour. With a clock
that counts sleep, every timeout would have expired when a laptop wakes up.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pumice.model.units import elapsed_text

_WORTH_AN_EVENT: Final = 5.0  # seconds


def elapsed() -> float:
    """Return the seconds since an arbitrary moment, without the time that the machine slept."""
    return time.monotonic()


def since_boot() -> float:
    """Return the seconds since an arbitrary moment, with the time that the machine slept, where the system knows it."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def wall_clock() -> dt.datetime:
    """The time that people read, which may jump."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - the clock of the run


def steady(begin: dt.datetime, passed: Callable[[], float] = elapsed) -> Callable[[], dt.datetime]:
    """A clock that shows `begin` now."""
    start = passed()
    return lambda: begin + dt.timedelta(seconds=passed() - start)


# The time of everything that happens in a run.
now = steady(wall_clock())


@dataclass(slots=True)
class ClockWatch:
    """Detects that the machine slept, and that its clock was set."""

    wall: Callable[[], dt.datetime] = wall_clock
    passed: Callable[[], float] = elapsed
    booted: Callable[[], float] = since_boot
    _slept: float = field(init=False)
    _set: float = field(init=False)

    def __post_init__(self) -> None:
        self._slept, self._set = self._offsets()

    def look(self) -> Iterator[str]:
        """Yield what happened since the last call."""
        slept, clock = self._offsets()
        if slept - self._slept >= _WORTH_AN_EVENT:
            yield f"Slept {elapsed_text(slept - self._slept)}: timeouts do not count it; connections may be broken"
        difference = clock - self._set
        if abs(difference) >= _WORTH_AN_EVENT:
            direction = "forward" if difference > 0 else "back"
            yield f"ClockChanged: the clock was set {direction} by {elapsed_text(abs(difference))}"
        if slept - self._slept >= _WORTH_AN_EVENT or abs(difference) >= _WORTH_AN_EVENT:
            self._slept, self._set = slept, clock

    def _offsets(self) -> tuple[float, float]:
        """Return how long the machine slept, and the difference of its clock to the time since it started."""
        booted = self.booted()
        return booted - self.passed(), self.wall().timestamp() - booted
