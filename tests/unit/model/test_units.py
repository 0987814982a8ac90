from __future__ import annotations

import datetime as dt

import pytest

from pumice.model.quantity import Quantity
from pumice.model.units import (
    NEVER,
    after,
    age_text,
    amount_text,
    clock_text,
    elapsed_text,
    parse_time,
    read_time,
    size_text,
    to_microseconds,
    to_milliseconds,
    to_seconds,
    whole_text,
)

MOMENT = dt.datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
ELSEWHERE = MOMENT.astimezone(dt.timezone(dt.timedelta(hours=8)))


@pytest.mark.parametrize("moment", [pytest.param(MOMENT, id="UTC"), pytest.param(ELSEWHERE, id="elsewhere")])
def test_times_are_written_in_utc(moment: dt.datetime) -> None:
    assert to_seconds(moment) == "2030-01-02T03:04:05Z"
    assert to_milliseconds(moment) == "2030-01-02T03:04:05.678Z"
    assert to_microseconds(moment) == "2030-01-02T03:04:05.678901Z"


def test_microseconds_round_trip() -> None:
    assert parse_time(to_microseconds(MOMENT)) == MOMENT


def test_what_kubernetes_writes_is_read() -> None:
    assert parse_time("2030-01-02T03:04:05Z") == MOMENT.replace(microsecond=0)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="nothing"),
        pytest.param("", id="empty"),
        pytest.param("soon", id="a word"),
        pytest.param("2030-01-02T03:04:05", id="without a zone"),
        pytest.param("2030-13-40T25:61:61Z", id="no such moment"),
        pytest.param("0001-01-01T00:00:00+14:00", id="before time began"),
        pytest.param("9999-12-31T23:59:59Z", id="the end of time"),
        pytest.param("31688-01-01T00:00:00Z", id="a year of five digits"),
    ],
)
def test_a_moment_that_cannot_be_reckoned_with_is_none(text: str | None) -> None:
    assert read_time(text) is None


def test_a_moment_that_can_be_is_read() -> None:
    assert read_time(to_microseconds(MOMENT)) == MOMENT


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(1, MOMENT + dt.timedelta(seconds=1), id="a second"),
        pytest.param(10**12, NEVER, id="thirty thousand years"),
        pytest.param(2**63 - 1, NEVER, id="the largest number of an API"),
    ],
)
def test_so_much_later(seconds: int, expected: dt.datetime) -> None:
    assert after(MOMENT, seconds) == expected


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**34, "16 GiB"), (2**70, "1048576 PiB")],
)
def test_size_text(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (7.94, "7.9s"),
        (59.99, "59.9s"),
        (60, "1m00s"),
        (125.9, "2m05s"),
        (3599.9, "59m59s"),
        (10_925, "3h02m"),
    ],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert elapsed_text(seconds) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", "500m", "0.5"),
        ("cpu", Quantity.parse("2"), "2"),
        ("memory", "16Gi", "16 GiB"),
        ("nvidia.com/gpu", "8", "8"),
    ],
)
def test_resources_are_for_people(resource: str, amount: Quantity | str, text: str) -> None:
    assert amount_text(resource, amount) == text


def test_cpus_in_a_column_of_a_table() -> None:
    assert amount_text("cpu", "500m", ".2f") == "0.50"


@pytest.mark.parametrize(
    ("seconds", "age", "clock", "whole"),
    [
        pytest.param(-1.0, "0s", "", "-1s", id="before"),
        pytest.param(0.5, "0s", "00:00", "0.5s", id="half a second"),
        pytest.param(90.0, "1m", "01:30", "90s", id="a minute and a half"),
        pytest.param(600.0, "10m", "10:00", "10m", id="minutes"),
        pytest.param(7200.0, "2h", "2:00:00", "2h", id="hours"),
        pytest.param(100_000.0, "27h", "27:46:40", "100000s", id="more than a day"),
        pytest.param(172_800.0, "2d", "48:00:00", "48h", id="days"),
    ],
)
def test_times_that_pass(seconds: float, age: str, clock: str, whole: str) -> None:
    assert age_text(seconds) == age
    assert whole_text(seconds) == whole
    assert seconds < 0 or clock_text(seconds) == clock
