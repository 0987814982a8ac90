from __future__ import annotations

import datetime as dt

import pytest

from pumice.engines.local.clock import ClockWatch, elapsed, since_boot, steady

BEGIN = dt.datetime(2026, 3, 29, 1, 59, 59, tzinfo=dt.UTC)
HOUR = 3600.0


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
    assert since_boot() >= elapsed() - 1


@pytest.mark.parametrize(
    ("wall", "passed", "booted", "events"),
    [
        pytest.param(60.0, 60.0, 60.0, [], id="nothing"),
        pytest.param(64.0, 60.0, 60.0, [], id="a clock that is put right by a little"),
        pytest.param(60.0 + HOUR, 60.0, 60.0, ["ClockChanged: the clock was set forward by 1h00m"], id="set forward"),
        pytest.param(60.0 - HOUR, 60.0, 60.0, ["ClockChanged: the clock was set back by 1h00m"], id="set back"),
        pytest.param(60.0 + 8 * HOUR, 60.0, 60.0 + 8 * HOUR, ["Slept 8h00m"], id="slept"),
        pytest.param(
            60.0 + 9 * HOUR,
            60.0,
            60.0 + 8 * HOUR,
            ["Slept 8h00m", "ClockChanged: the clock was set forward by 1h00m"],
            id="slept, and set",
        ),
    ],
)
def test_injected_clocks_that_jump(wall: float, passed: float, booted: float, events: list[str]) -> None:
    at = {"wall": 0.0, "passed": 0.0, "booted": 0.0}
    watch = ClockWatch(
        lambda: BEGIN + dt.timedelta(seconds=at["wall"]), lambda: 100.0 + at["passed"], lambda: 500.0 + at["booted"]
    )
    assert list(watch.look()) == []
    at.update(wall=wall, passed=passed, booted=booted)
    found = list(watch.look())
    assert [text for text, start in zip(found, events, strict=True) if not text.startswith(start)] == []
    assert list(watch.look()) == [], "each is told once"
