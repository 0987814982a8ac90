from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.slot import MOST_PODS, Slot, read_indexes, slots, write_indexes
from tests.builders import a_job, a_task, a_template


def test_all_slots_by_task_and_index() -> None:
    job = a_job(a_task("b", 2), a_task("none", 0), a_task("a"))
    assert list(slots(job)) == [
        Slot(job, job.spec.tasks[0], 0),
        Slot(job, job.spec.tasks[0], 1),
        Slot(job, job.spec.tasks[2], 0),
    ]


def test_the_names_of_a_slot() -> None:
    job = a_job(a_task("worker", 2, a_template(subdomain="net")))
    slot = Slot(job, job.spec.tasks[0], 1)
    assert (slot.pod_name, slot.short_name, slot.hostname, slot.subdomain) == (
        "train-worker-1",
        "worker-1",
        "train-worker-1",
        "net",
    )


TABLE = [
    pytest.param(set(), "", id="none"),
    pytest.param({0}, "0", id="one"),
    pytest.param({0, 1, 2}, "0-2", id="a range"),
    pytest.param({0, 2, 4}, "0,2,4", id="gaps"),
    pytest.param({9999, 3, 4, 1}, "1,3-4,9999", id="in order"),
]


@pytest.mark.parametrize(("indexes", "text"), TABLE)
def test_both_ways(indexes: set[int], text: str) -> None:
    assert write_indexes(indexes) == text
    assert read_indexes(text) == indexes


def test_ten_thousand_in_a_row_are_a_few_characters() -> None:
    assert write_indexes(range(10_000)) == "0-9999"


def test_duplicate_indexes_are_written_once() -> None:
    assert write_indexes([3, 3, 2]) == "2-3"


@given(st.frozensets(st.integers(0, 60)))
def test_a_written_ledger_is_read_back(indexes: frozenset[int]) -> None:
    assert read_indexes(write_indexes(indexes)) == indexes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("many", set(), id="no numbers"),
        pytest.param("1,x,3", {1}, id="up to what is no number"),
        pytest.param("-3", set(), id="below nothing"),
        pytest.param("5-2,7", {7}, id="backwards"),
        pytest.param("0-1,0-1,0-1", {0, 1}, id="the same over and over"),
        pytest.param("9" * 5000, set(), id="a number of 5000 digits"),
        pytest.param("\N{SUPERSCRIPT TWO}", set(), id="a digit that is none"),
        pytest.param("149998-999999999", {149998, 149999}, id="no more than a cluster has"),
        pytest.param("150000", set(), id="beyond that"),
    ],
)
def test_untrusted_text_is_read_up_to_the_first_error(text: str, expected: set[int]) -> None:
    assert read_indexes(text) == expected


def test_no_text_makes_a_set_that_is_too_large() -> None:
    assert len(read_indexes(",".join(["0-999999999"] * 1000))) == MOST_PODS
