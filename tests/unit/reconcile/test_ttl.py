from __future__ import annotations

import datetime as dt

import pytest

from pumice.reconcile.ttl import expiry
from tests.unit.reconcile.values import a_snapshot, a_two_worker_job

END = dt.datetime(2030, 1, 2, 3, 0, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("phase", "ttl", "expected"),
    [
        pytest.param("Completed", 60, END + dt.timedelta(seconds=60), id="completed"),
        pytest.param("Failed", 0, END, id="at once"),
        pytest.param("Terminated", 1, END + dt.timedelta(seconds=1), id="terminated"),
        pytest.param("Aborted", 60, None, id="aborted is not over"),
        pytest.param("Running", 60, None, id="running"),
        pytest.param("Completed", None, None, id="no ttl"),
    ],
)
def test_when_a_job_is_removed(phase: str, ttl: int | None, expected: dt.datetime | None) -> None:
    job = a_snapshot(job=a_two_worker_job(ttl_seconds_after_finished=ttl), phase=phase).job
    assert expiry(job) == expected


def test_a_job_without_a_time_of_its_end_stays() -> None:
    job = a_snapshot(job=a_two_worker_job(ttl_seconds_after_finished=1), phase="Completed", since=None).job
    assert expiry(job) is None
