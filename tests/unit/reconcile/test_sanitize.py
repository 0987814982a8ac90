from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pumice.model.job import JobCondition, JobState, JobStatus
from pumice.model.vocabulary import Phase
from pumice.reconcile.decide import decide
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.sanitize import sanitize_ledger, sanitize_status
from tests.unit.reconcile.values import NOW, a_pod, a_snapshot, a_two_worker_job, ended, later

HUGE = 2**31 - 1


def test_a_status_as_we_write_it_is_left_as_it_is() -> None:
    job = a_snapshot(version=3, retry_count=2).job
    assert sanitize_status(job, NOW) is job


@pytest.mark.parametrize(
    ("fields", "mended"),
    [
        pytest.param({"version": HUGE}, {"version": 0}, id="a version that cannot grow"),
        pytest.param({"version": -1}, {"version": 0}, id="a version below nothing"),
        pytest.param({"retry_count": HUGE}, {"retry_count": 0}, id="retries that cannot grow"),
        pytest.param(
            {"conditions": [JobCondition(status="Odd"), JobCondition(status="Running")] * 99},
            {"conditions": [JobCondition(status="Running")]},
            id="conditions without end",
        ),
        pytest.param(
            {"state": JobState(phase="Completed", last_transition_time="2999-01-01T00:00:00Z")},
            {"state": JobState(phase="Completed", last_transition_time="2030-01-02T03:04:05Z")},
            id="an end that has not come",
        ),
        pytest.param(
            {"state": JobState(phase="Completed", last_transition_time="then")},
            {"state": JobState(phase="Completed", last_transition_time="2030-01-02T03:04:05Z")},
            id="an end at no moment",
        ),
    ],
)
def test_what_cannot_be_is_put_right(fields: dict[str, Any], mended: dict[str, Any]) -> None:
    job = msgspec.structs.replace(a_two_worker_job(), status=JobStatus(**fields))
    assert sanitize_status(job, NOW).status == JobStatus(**mended)


def test_nothing_in_a_ledger_is_later_than_now() -> None:
    job = a_snapshot(version=2, retry_count=1).job
    ledger = Ledger(
        generation=9,
        void=7,
        restart=Restart(RestartKind.TARGETS, 8, {"worker": frozenset((0,))}),
        evicted={"worker-0": later(60), "worker-1": later(-60)},
        noticed={"TaskFailed/worker": later(60)},
        unknown_since=later(60),
        first_running=later(60),
    )
    assert sanitize_ledger(ledger, job, NOW) == Ledger(
        generation=1,
        void=2,
        restart=Restart(RestartKind.TARGETS, 1, {"worker": frozenset((0,))}),
        evicted={"worker-0": NOW, "worker-1": later(-60)},
        noticed={"TaskFailed/worker": NOW},
        unknown_since=NOW,
        first_running=NOW,
    )


def test_a_finished_job_with_a_future_end_is_removed_in_time() -> None:
    job = a_two_worker_job(ttl_seconds_after_finished=10)
    first = decide(a_snapshot(job=job, phase="Completed", since="2040-01-01T00:00:00Z"), (), NOW)
    assert first.status.state.last_transition_time == "2030-01-02T03:04:05Z"
    assert first.requeue_after is not None
    assert first.requeue_after.total_seconds() == 10


def test_a_deadline_beyond_all_reckoning_is_never_reached() -> None:
    job = a_two_worker_job(active_deadline_seconds=2**63 - 1)
    snapshot = a_snapshot(a_pod("worker-0"), a_pod("worker-1"), job=job, ledger=Ledger(first_running=NOW))
    assert decide(snapshot, (), NOW).status.state.phase == "Running"


WORDS = st.sampled_from(
    [
        *("", "x", "-1", "7", "9" * 30, "0-5,3", "0-999999999", "all@1", "targets@999999999", "targets@"),
        *("2030-01-02T03:04:05", "2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"),
    ]
)
KEYS = st.sampled_from(
    [
        *("spent", "generation", "void", "seen/worker", "seen/", "succeeded/worker", "succeeded/odd", "restart", "odd"),
        *("target/worker", "target/odd", "restarts/worker", "restarts/", "evicted/worker-0", "evicted/worker-"),
        *("evicted/x", "evicted/odd-3", "noticed/TaskFailed/worker", "noticed/", "unknown-since", "first-running"),
        *("suspended", "obeyed/"),
    ]
).map("pumice/".__add__)
NUMBERS = st.sampled_from([-(2**31), -1, 0, 1, 7, HUGE])
MOMENTS = st.none() | WORDS
STATUSES = st.builds(
    JobStatus,
    state=st.builds(
        JobState,
        phase=st.sampled_from([*Phase, "", "Odd"]),
        reason=WORDS,
        message=WORDS,
        last_transition_time=MOMENTS,
    ),
    min_available=NUMBERS,
    pending=NUMBERS,
    running=NUMBERS,
    terminating=NUMBERS,
    version=NUMBERS,
    retry_count=NUMBERS,
    running_duration=MOMENTS,
    controlled_resources=st.dictionaries(KEYS | WORDS, WORDS, max_size=8),
    conditions=st.lists(
        st.builds(JobCondition, status=st.sampled_from([*Phase, "Odd"]), last_transition_time=MOMENTS), max_size=15
    ),
)


@given(STATUSES, st.sampled_from([None, 0, 60]))
def test_any_status_ends_a_pass_and_later_passes_come_to_rest(status: JobStatus, ttl: int | None) -> None:
    job = a_two_worker_job(ttl_seconds_after_finished=ttl, active_deadline_seconds=600)
    snapshot = a_snapshot(a_pod("worker-0"), ended("worker-1", 1), job=job)
    seen = []
    for number in range(12):
        job = msgspec.structs.replace(snapshot.job, status=status)
        after = decide(replace(snapshot, job=job), (), later(number))
        seen.append(after.status)
        if after.status == status:
            return
        status = after.status
    pytest.fail(f"twelve passes, and still something new: {seen[-2:]}")
