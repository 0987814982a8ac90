from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.snapshot import JobKey
from pumice.runtime.queue import FIRST_DELAY, LONGEST_DELAY, LONGEST_HOLD, MOST_RESTING, KeyQueue

A, B, C = (JobKey("lab", name) for name in "abc")
START = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def test_first_come_first_served() -> None:
    queue = KeyQueue()
    for key in (B, A, C):
        queue.add(key)
    assert [queue.take(START) for _ in range(4)] == [B, A, C, None]


def test_what_is_added_many_times_is_taken_once() -> None:
    queue = KeyQueue()
    for key in (A, B, A, A):
        queue.add(key)
    assert [queue.take(START) for _ in range(3)] == [A, B, None]


def test_a_key_is_served_by_one_at_a_time_and_again_if_it_was_added_meanwhile() -> None:
    queue = KeyQueue()
    queue.add(A)
    assert queue.take(START) == A
    queue.add(A)
    queue.add(A)
    assert queue.take(START) is None
    assert queue.next_due() is None
    queue.done(A)
    assert queue.take(START) == A
    queue.done(A)
    assert queue.take(START) is None


@pytest.mark.parametrize(
    ("now", "expected"),
    [pytest.param(9, None, id="early"), pytest.param(10, A, id="due"), pytest.param(99, A, id="late")],
)
def test_an_appointment_is_kept(now: float, expected: JobKey | None) -> None:
    queue = KeyQueue()
    queue.add_at(A, at(10))
    assert queue.take(at(now)) == expected


@pytest.mark.parametrize("moments", [(10, 20), (20, 10), (10, 10)])
def test_the_earlier_time_wins_and_is_kept_once(moments: tuple[int, int]) -> None:
    queue = KeyQueue()
    for moment in moments:
        queue.add_at(A, at(moment))
    assert queue.next_due() == at(10)
    assert queue.take(at(10)) == A
    queue.done(A)
    assert queue.take(at(99)) is None
    assert queue.next_due() is None


def test_an_outdated_entry_wakes_no_worker() -> None:
    queue = KeyQueue()
    queue.add_at(A, at(20))
    queue.add_at(A, at(10))
    assert queue.take(at(10)) == A
    queue.done(A)
    queue.add_at(A, at(30))
    assert queue.next_due() == at(30)
    assert queue.take(at(25)) is None
    assert queue.take(at(30)) == A


def test_an_appointment_that_comes_while_the_key_is_served_is_kept_afterwards() -> None:
    queue = KeyQueue()
    queue.add(A)
    assert queue.take(START) == A
    queue.add_at(A, at(1))
    assert queue.take(at(2)) is None
    queue.done(A)
    assert queue.take(at(2)) == A


def test_what_waits_is_due_in_the_past() -> None:
    queue = KeyQueue()
    assert queue.next_due() is None
    queue.add_at(B, at(5))
    queue.add(A)
    due = queue.next_due()
    assert due is not None
    assert due < START


def test_the_delay_grows_with_each_failure_and_resets_after_a_success() -> None:
    queue, now, delays = KeyQueue(), START, []
    queue.add(A)
    for _ in range(30):
        assert queue.take(now) == A
        queue.failed(A, now)
        due = queue.next_due()
        assert due is not None
        delays.append(due - now)
        now = due
    assert delays[:3] == [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4]
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_DELAY
    assert queue.take(now) == A
    queue.done(A)
    queue.add(A)
    assert queue.take(now) == A
    queue.failed(A, now)
    assert queue.next_due() == now + FIRST_DELAY


def test_many_that_failed_at_once_may_be_spread() -> None:
    queue = KeyQueue()
    queue.add(A)
    assert queue.take(START) == A
    queue.failed(A, START, spread=1.5)
    assert queue.next_due() == START + FIRST_DELAY * 1.5


@pytest.mark.parametrize(
    ("failures", "expected"),
    [pytest.param(1, FIRST_DELAY, id="the first time"), pytest.param(30, LONGEST_HOLD, id="in the end")],
)
def test_a_failure_puts_off_what_was_added_meanwhile_by_a_second_at_most(failures: int, expected: dt.timedelta) -> None:
    queue, now = KeyQueue(), START
    for _ in range(failures):
        now += LONGEST_DELAY
        queue.add(A)
        assert queue.take(now) == A
        queue.add(A)
        queue.failed(A, now)
    assert queue.take(now) is None
    queue.add(A)
    assert queue.next_due() == now + expected
    assert queue.take(now + expected) == A


def test_a_key_that_its_own_failure_adds_backs_off() -> None:
    queue, now, tries = KeyQueue(), START, 0
    queue.add(A)
    while now < at(60):
        if queue.take(now) == A:
            tries += 1
            queue.add(A)
            queue.failed(A, now)
        now += FIRST_DELAY
    assert tries < 75


STEPS = st.lists(st.tuples(st.sampled_from(("add", "at", "take", "done", "fail")), st.sampled_from((A, B, C))))


@given(STEPS)
def test_nothing_is_lost_and_nothing_is_served_twice_at_once(steps: list[tuple[str, JobKey]]) -> None:
    queue, now, serving, owed = KeyQueue(), START, set[JobKey](), set[JobKey]()
    for what, key in steps:
        now += LONGEST_DELAY  # so that whatever failed before is due
        if what == "add":
            queue.add(key)
            owed.add(key)
        elif what == "at":
            queue.add_at(key, now)
            owed.add(key)
        elif what == "take":
            taken = queue.take(now)
            assert taken not in serving
            assert (taken is None) == (owed <= serving)
            if taken is not None:
                serving.add(taken)
                owed.discard(taken)
        elif key in serving:
            serving.discard(key)
            if what == "done":
                queue.done(key)
            else:
                queue.failed(key, now)
                owed.add(key)
    for key in serving:
        queue.done(key)
    left = set[JobKey]()
    while (taken := queue.take(now + LONGEST_DELAY)) is not None:
        left.add(taken)
    assert left == owed


def test_a_key_rests_even_if_it_is_added() -> None:
    queue = KeyQueue()
    for key in (A, B, C):
        queue.add(key)
        assert queue.take(START) == key
    queue.add(A)
    for key in (A, B, C):
        queue.done(key, rest=at(2))
    queue.add(B)
    assert queue.take(at(1)) is None
    assert queue.next_due() == at(2)
    assert [queue.take(at(2)) for _ in range(3)] == [A, B, None]
    queue.add(C)
    assert queue.take(at(3)) == C


def test_rests_that_are_over_are_forgotten() -> None:
    queue = KeyQueue()
    for number in range(MOST_RESTING + 10):
        key = JobKey("lab", str(number))
        queue.add(key)
        assert queue.take(at(number)) == key
        queue.done(key, rest=at(number + 1))
    assert len(queue._resting) <= MOST_RESTING


def test_a_clock_that_is_set_back_delays_no_key() -> None:
    queue = KeyQueue()
    for key in (A, B):
        queue.add(key)
        assert queue.take(at(10_000)) == key
    queue.done(A, rest=at(10_002))
    queue.failed(B, at(10_000))
    queue.add(A)
    assert [queue.take(START), queue.take(at(1)), queue.take(at(1)), queue.take(at(2))] == [None, B, None, A]
    queue.add_at(C, at(60))
    assert [queue.take(at(59)), queue.take(at(60))] == [None, C]
