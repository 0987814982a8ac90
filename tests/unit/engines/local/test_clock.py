from __future__ import annotations

import datetime as dt

from pumice.engines.local.clock import elapsed, steady

BEGIN = dt.datetime(2026, 3, 29, 1, 59, 59, tzinfo=dt.UTC)


def test_the_clock_goes_on_from_its_beginning() -> None:
    seconds = [100.0]
    clock = steady(BEGIN, lambda: seconds[0])
    assert clock() == BEGIN
    seconds[0] += 1.5
    assert clock() == BEGIN + dt.timedelta(seconds=1.5)


def test_time_passes_and_never_goes_back() -> None:
    times = [elapsed() for _ in range(1000)]
    assert times == sorted(times)
    assert steady(BEGIN)() >= BEGIN
