"""The time of a run. It goes on evenly, even if the machine's clock is set meanwhile.

Appointments are kept by it: with a clock that is set back by an hour they would be an hour late.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable


def elapsed() -> float:
    """Seconds since some moment; the time for which a laptop slept counts, where the system knows it."""
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
