from __future__ import annotations

import datetime as dt

import pytest

from pumice.model.timestamps import NEVER, after, parse_time, read_time, to_microseconds, to_seconds

MOMENT = dt.datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
ELSEWHERE = MOMENT.astimezone(dt.timezone(dt.timedelta(hours=8)))


@pytest.mark.parametrize("moment", [pytest.param(MOMENT, id="UTC"), pytest.param(ELSEWHERE, id="elsewhere")])
def test_times_are_written_in_utc(moment: dt.datetime) -> None:
    assert to_seconds(moment) == "2030-01-02T03:04:05Z"
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
