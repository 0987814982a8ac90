from __future__ import annotations

import datetime as dt

import pytest

from pumice.model.times import parse_time, to_microseconds, to_seconds

MOMENT = dt.datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
ELSEWHERE = MOMENT.astimezone(dt.timezone(dt.timedelta(hours=8)))


@pytest.mark.parametrize("moment", [pytest.param(MOMENT, id="UTC"), pytest.param(ELSEWHERE, id="elsewhere")])
def test_times_are_written_in_utc(moment: dt.datetime) -> None:
    assert to_seconds(moment) == "2030-01-02T03:04:05Z"
    assert to_microseconds(moment) == "2030-01-02T03:04:05.678901Z"


def test_microseconds_come_back_whole() -> None:
    assert parse_time(to_microseconds(MOMENT)) == MOMENT


def test_what_kubernetes_writes_is_read() -> None:
    assert parse_time("2030-01-02T03:04:05Z") == MOMENT.replace(microsecond=0)
