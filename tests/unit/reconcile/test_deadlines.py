from __future__ import annotations

import datetime as dt

import pytest

from pumice.model.snapshot import ObservedPod
from pumice.model.vocabulary import Action, Event
from pumice.reconcile.deadlines import active_deadline, expiry, requeue_after
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from tests.unit.reconcile.values import NOW, a_match, a_pod, a_snapshot, a_state, a_two_worker_job, later

END = dt.datetime(2030, 1, 2, 3, 0, 0, tzinfo=dt.UTC)
LIMITED = a_two_worker_job(active_deadline_seconds=60)


@pytest.mark.parametrize(
    ("phase", "ttl", "expected"),
    [
        pytest.param("Completed", 60, END + dt.timedelta(seconds=60), id="completed"),
        pytest.param("Failed", 0, END, id="at once"),
        pytest.param("Terminated", 1, END + dt.timedelta(seconds=1), id="terminated"),
        pytest.param("Aborted", 60, None, id="aborted is not final"),
        pytest.param("Running", 60, None, id="running"),
        pytest.param("Completed", None, None, id="no ttl"),
    ],
)
def test_when_a_finished_job_expires(phase: str, ttl: int | None, expected: dt.datetime | None) -> None:
    job = a_snapshot(job=a_two_worker_job(ttl_seconds_after_finished=ttl), phase=phase).job
    assert expiry(job) == expected


def test_a_job_without_the_time_of_its_end_does_not_expire() -> None:
    job = a_snapshot(job=a_two_worker_job(ttl_seconds_after_finished=1), phase="Completed", since=None).job
    assert expiry(job) is None


def test_the_active_deadline_counts_from_the_first_running() -> None:
    assert active_deadline(LIMITED, Ledger()) is None
    assert active_deadline(LIMITED, Ledger(first_running=NOW)) == later(60)
    assert active_deadline(a_two_worker_job(), Ledger(first_running=NOW)) is None


@pytest.mark.parametrize(
    ("dues", "ran", "expected"),
    [
        pytest.param((), None, None, id="nothing"),
        pytest.param((-1, 0), None, None, id="due already"),
        pytest.param((30, 10), None, 10, id="the first"),
        pytest.param((30,), -50, 10, id="the deadline"),
        pytest.param((), -70, None, id="past the deadline"),
    ],
)
def test_when_to_requeue(dues: tuple[float, ...], ran: float | None, expected: float | None) -> None:
    matched = [a_match(Action.ABORT_JOB, Event.POD_FAILED, "worker-0", due) for due in dues]
    state = a_state(job=LIMITED, ledger=Ledger(first_running=None if ran is None else later(ran)))
    wanted = None if expected is None else dt.timedelta(seconds=expected)
    assert requeue_after(state, matched, NOW) == wanted


@pytest.mark.parametrize(
    ("pod", "kind", "expected"),
    [
        pytest.param(a_pod(deleted_at=later(5)), RestartKind.ALL, 5, id="terminates"),
        pytest.param(a_pod(deleted_at=NOW), RestartKind.ALL, None, id="outlives its grace period"),
        pytest.param(a_pod(), RestartKind.ALL, None, id="not deleted yet"),
        pytest.param(a_pod(deleted_at=later(5)), RestartKind.TARGETS, None, id="a targeted restart does not wait"),
    ],
)
def test_the_grace_period_of_the_previous_run(pod: ObservedPod, kind: RestartKind, expected: float | None) -> None:
    state = a_state(pod, phase="Pending", version=1, ledger=Ledger(restart=Restart(kind)))
    assert requeue_after(state, (), NOW) == (None if expected is None else dt.timedelta(seconds=expected))
