from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.indexes import read_indexes, write_indexes

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


def test_what_stands_twice_is_written_once() -> None:
    assert write_indexes([3, 3, 2]) == "2-3"


@given(st.frozensets(st.integers(0, 60)))
def test_what_is_written_is_read(indexes: frozenset[int]) -> None:
    assert read_indexes(write_indexes(indexes)) == indexes
