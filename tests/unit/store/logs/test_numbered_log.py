"""The numbers of the lines of a run: what they count, and when they are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.store.history.event_log import Mark
from pumice.store.journal import SequenceNumbers
from pumice.store.logs.log_file import LogFile
from pumice.store.logs.numbered_log import ERROR, LogFiles, NumberedLog


def container(directory: Path, numbers: SequenceNumbers, restart: int = 0, most: int | None = None) -> LogFile:
    return LogFile(directory / "pods/w-0/1" / f"c.{restart}.log", print, numbers.next, most, segment=100)


def lines(log: NumberedLog) -> list[str]:
    return [text.decode() for row in range(len(log.seqs)) for text in log.text(row)]


def test_what_was_printed_after_the_journal_was_read_has_its_number_later(tmp_path: Path) -> None:
    numbers = SequenceNumbers()
    file, log = container(tmp_path, numbers), NumberedLog(LogFiles(tmp_path), live=True)
    file.write(b"one\n")
    mark = Mark(numbers.next(), 1, "phase", "Running", 1)
    log.find()
    # Of this line it is not known what Pumice said before it.
    numbers.next()
    file.write(b"two\n")
    log.number([mark], mark.seq)
    assert lines(log) == ["one", "Running"]
    log.find()
    log.number([], mark.seq)
    assert lines(log) == ["one", "Running", "two"]


@pytest.mark.parametrize(
    ("restarts", "most", "printed", "truncated"),
    [
        pytest.param(2, None, 1, False, id="a container that restarted"),
        pytest.param(1, 1000, 5, False, id="segments"),
        pytest.param(1, 300, 20, True, id="segments of which the oldest were removed"),
    ],
)
def test_a_log_is_truncated_when_lines_of_it_were_removed(
    tmp_path: Path, restarts: int, most: int | None, printed: int, truncated: bool
) -> None:
    numbers = SequenceNumbers()
    for restart in range(restarts):
        file = container(tmp_path, numbers, restart, most)
        for _ in range(printed):
            file.write(b"x" * 60 + b"\n")
        file.close()
    log = NumberedLog(LogFiles(tmp_path), live=False)
    log.find()
    assert log.storage.truncated is truncated


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        (b"ValueError: bad", True),
        (b"torch.OutOfMemoryError: CUDA out of memory", True),
        (b"2026 ERROR worker failed", True),
        (b"fatal: not a repository", True),
        (b"Segmentation fault (core dumped)", True),
        (b"0 errors, no exceptions", False),
        (b"step 10 mean error 0.1", False),
        (b"", False),
    ],
)
def test_what_looks_like_an_error(line: bytes, is_error: bool) -> None:
    assert (ERROR.match(line) is not None) is is_error


def test_a_line_of_a_megabyte_is_searched_for_errors_at_once() -> None:
    """A pattern that tries every word from each of its letters would take hours."""
    assert ERROR.match(b"x" * (1 << 20)) is None
    assert ERROR.match(b"x" * (1 << 20) + b"Error: bad") is not None
