from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from pumice.store.journal import FILE, RESERVE, Entry, Journal, SequenceNumbers, read_journal

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def journal(directory: Path) -> Journal:
    return Journal(directory, SequenceNumbers(), lambda: NOON, lambda: 1.5, pytest.fail)


def written(directory: Path) -> list[Entry]:
    one = journal(directory)
    assert one.open() == []
    entries = [one.append("a", {"x": 1}), one.append("b", sync=True)]
    one.close()
    return entries


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    entries = written(tmp_path)
    assert [entry.seq for entry in entries] == [1, 2]
    assert read_journal(tmp_path)[0] == entries
    assert not (tmp_path / RESERVE).exists()


def test_a_journal_that_was_cut_at_any_byte_opens_and_goes_on(tmp_path: Path) -> None:
    entries = written(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for length in range(len(whole) + 1):
        (tmp_path / FILE).write_bytes(whole[:length])
        found = read_journal(tmp_path).entries
        assert found == entries[: len(found)]
        again = journal(tmp_path)
        assert again.open() == found
        added = again.append("c")
        again.close()
        assert added.seq == len(found) + 1
        assert read_journal(tmp_path)[0] == [*found, added]


def test_a_reader_goes_on_where_it_stopped(tmp_path: Path) -> None:
    assert read_journal(tmp_path) == ([], 0, 0)
    one = journal(tmp_path)
    one.open()
    first = one.append("a")
    found, offset, _ = read_journal(tmp_path)
    assert found == [first]
    second = one.append("b")
    assert read_journal(tmp_path, offset)[0] == [second]
    one.close()


def test_a_damaged_line_is_skipped(tmp_path: Path) -> None:
    entries = written(tmp_path)
    lines = (tmp_path / FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(lines[0] + b"\xff{]\n" + lines[1])
    assert read_journal(tmp_path)[0] == entries


def test_a_full_disk_is_reported_once(tmp_path: Path) -> None:
    reported: list[str] = []
    one = Journal(tmp_path, SequenceNumbers(), lambda: NOON, lambda: 1.5, reported.append)
    one.open()
    one.close()
    with Path("/dev/full").open("wb", buffering=0) as full:
        one._descriptor = full.fileno()
        one.append("a")
        one.append("b")
    assert reported == ["no space left on device"]
