from __future__ import annotations

import pytest

from pumice.store.logs.log_index import GAP, RECORD, STDERR, decode_records, encode_record

RECORDS = [(7, 1_700_000_000_000_000_000, 10, 1, 0), (9, 5, 70_000, 812, STDERR), (1 << 40, 0, 1 << 35, 1, GAP)]
BLOCK = b"".join(encode_record(*each) for each in RECORDS)


def _rows(block: bytes, begin: int = 0) -> list[tuple[int, ...]]:
    found = decode_records(block, begin)
    return list(zip(found.sequence, found.times, found.ends, found.lines, found.flags, strict=True))


def test_records_have_32_bytes_and_round_trip() -> None:
    assert len(BLOCK) == 3 * RECORD == 96
    assert _rows(BLOCK) == RECORDS
    assert _rows(b"") == []


def test_extreme_values_fit() -> None:
    # A clock before 1970, more lines than a batch ever has.
    assert _rows(encode_record(1, -5, 0, 1 << 30, STDERR)) == [(1, 0, 0, (1 << 24) - 1, STDERR)]


@pytest.mark.parametrize("cut", range(1, 3 * RECORD))
def test_an_incomplete_last_record_is_ignored(cut: int) -> None:
    assert _rows(BLOCK[:cut]) == RECORDS[: cut // RECORD]


@pytest.mark.parametrize("at", range(3 * RECORD))
def test_a_damaged_record_leaves_its_text_to_the_next(at: int) -> None:
    damaged = bytearray(BLOCK)
    damaged[at] ^= 0x20
    found, number = _rows(bytes(damaged), 4), at // RECORD
    assert [row for index, row in enumerate(found) if index != number] == [
        row for index, row in enumerate(RECORDS) if index != number
    ]
    assert found[number][2] == (RECORDS[number - 1][2] if number else 4)


def test_a_hole_that_a_power_failure_left_is_no_record() -> None:
    assert [row[:3] for row in _rows(bytes(2 * RECORD), 33)] == [(0, 0, 33)] * 2
