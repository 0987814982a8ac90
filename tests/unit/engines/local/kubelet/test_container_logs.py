"""What containers print, from the pipe to the file and the watcher."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from pumice.engines.local.kubelet.container_logs import LONGEST_LINE, LogPump
from pumice.store.events import LogLine

_PIECE = 60000  # less than a pipe takes


class _Sink:
    def __init__(self) -> None:
        self.written: list[tuple[bytes, str]] = []

    def write(self, data: bytes, stream: str) -> None:
        self.written.append((data, stream))

    def close(self) -> None:
        """The pump leaves this to the container."""


async def _pumped(*writes: bytes) -> tuple[list[LogLine], bytes, str]:
    file, seen = _Sink(), list[LogLine]()
    pump = LogPump("w-0", "w", "stdout", file, seen.extend)
    pipe = pump.open()
    for data in writes:
        for start in range(0, len(data), _PIECE):
            os.write(pipe, data[start : start + _PIECE])
            # Whoever reads gets what was written so far, and only that.
            await asyncio.sleep(0.01)
    os.close(pipe)
    await pump.drained()
    assert {stream for _, stream in file.written} <= {"stdout"}
    return seen, b"".join(data for data, _ in file.written), pump.last_line(1)


@pytest.mark.parametrize(
    ("data", "shown", "kept", "last"),
    [
        pytest.param(b"a\nb\n", ["a", "b"], b"a\nb\n", "b", id="lines"),
        pytest.param(b"a\nb", ["a", "b"], b"a\nb\n", "b", id="last line without an end"),
        pytest.param(b"a\n\n", ["a", ""], b"a\n\n", "a", id="an empty line is no last line"),
        pytest.param(b"1%\r2%\r3%\n", ["3%"], b"3%\n", "3%", id="progress bar"),
        pytest.param(b"\r1%\r2%\n", ["2%"], b"2%\n", "2%", id="progress bar with the return first"),
        pytest.param(b"dos\r\n", ["dos"], b"dos\n", "dos", id="carriage return at the end"),
        pytest.param(b"\xff\n", ["\ufffd"], b"\xff\n", "\ufffd", id="no UTF-8"),
    ],
)
def test_lines(data: bytes, shown: list[str], kept: bytes, last: str) -> None:
    seen, file, words = asyncio.run(_pumped(data))
    assert [line.text for line in seen] == shown
    assert (file, words) == (kept, last)


@pytest.mark.parametrize(
    ("writes", "shown", "kept"),
    [
        pytest.param([b"1%\r", b"2%\r"], [("1%", True), ("2%", True), ("2%", False)], b"2%\n", id="return last"),
        pytest.param([b"\r1%", b"\r2%"], [("1%", True), ("2%", True), ("2%", False)], b"2%\n", id="return first"),
        pytest.param([b"\r1%", b"\r1%", b"\n"], [("1%", True), ("1%", False)], b"1%\n", id="no change"),
        pytest.param([b"\r5", b"0%"], [("5", True), ("50%", True), ("50%", False)], b"50%\n", id="in pieces"),
        pytest.param([b"9%\r", b"\n"], [("9%", True), ("9%", False)], b"9%\n", id="end of line in another piece"),
    ],
)
def test_progress_is_handed_on_before_its_line_ends_and_its_last_state_is_kept(
    writes: list[bytes], shown: list[tuple[str, bool]], kept: bytes
) -> None:
    seen, file, _ = asyncio.run(_pumped(*writes))
    assert [(line.text, line.unfinished) for line in seen] == shown
    assert file == kept


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        pytest.param(["ValueError: no", "cleaning up"], "ValueError: no", id="afterwords"),
        pytest.param(
            ["[rank0]: torch.cuda.OutOfMemoryError: no", "x"], "[rank0]: torch.cuda.OutOfMemoryError: no", id="torch"
        ),
        pytest.param(["KeyError: 1", *("x" * 9)], "x", id="long ago"),
        pytest.param(["Error budgets are fine", "done"], "done", id="no exception"),
        pytest.param(["  File x, line 3", "SystemExit"], "SystemExit", id="without words"),
    ],
)
def test_the_last_line_is_the_one_that_says_something(lines: list[str], last: str) -> None:
    assert asyncio.run(_pumped("\n".join(lines).encode()))[2] == last


def test_a_line_without_end_is_handed_on_in_pieces_that_cut_no_character() -> None:
    text = "é" * LONGEST_LINE
    seen, file, _ = asyncio.run(_pumped(b"x", text.encode()))
    assert "".join(line.text for line in seen) == "x" + text
    assert max(len(line.text.encode()) for line in seen) <= LONGEST_LINE
    assert file.replace(b"\n", b"") == b"x" + text.encode()


def test_many_lines_are_handed_on_together() -> None:
    batches: list[Sequence[LogLine]] = []

    async def story() -> None:
        pump = LogPump("w-0", "w", "stdout", _Sink(), batches.append)
        pipe = pump.open()
        os.write(pipe, b"line\n" * 10000)
        os.close(pipe)
        await pump.drained()

    asyncio.run(story())
    assert sum(map(len, batches)) == 10000
    assert len(batches) < 10
