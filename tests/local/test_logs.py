"""What containers print, from the pipe to the file and the watcher."""

from __future__ import annotations

import asyncio
import io
import os

import pytest

from pumice.engines.local.logs import LogLine, LogPump


async def _pumped(data: bytes) -> tuple[list[LogLine], bytes, str]:
    file, seen = io.BytesIO(), list[LogLine]()
    pump = LogPump("w-0", "w", "stdout", file, seen.append)
    pipe = pump.open()
    os.write(pipe, data)
    os.close(pipe)
    await pump.drained()
    return seen, file.getvalue(), pump.last_line


@pytest.mark.parametrize(
    ("data", "shown", "kept", "last"),
    [
        pytest.param(b"a\nb\n", ["a", "b"], b"a\nb\n", "b", id="lines"),
        pytest.param(b"a\nb", ["a", "b"], b"a\nb\n", "b", id="last line without an end"),
        pytest.param(b"a\n\n", ["a", ""], b"a\n\n", "a", id="an empty line is no last line"),
        pytest.param(b"1%\r2%\r3%\n", ["3%"], b"3%\n", "3%", id="progress bar"),
        pytest.param(b"dos\r\n", ["dos"], b"dos\n", "dos", id="carriage return at the end"),
        pytest.param(b"\xff\n", ["\ufffd"], "\ufffd\n".encode(), "\ufffd", id="no UTF-8"),
    ],
)
def test_lines(data: bytes, shown: list[str], kept: bytes, last: str) -> None:
    seen, file, words = asyncio.run(_pumped(data))
    assert [line.text for line in seen] == shown
    assert (file, words) == (kept, last)


def test_progress_is_handed_on_before_its_line_ends() -> None:
    seen, file, _ = asyncio.run(_pumped(b"1%\r2%\r"))
    assert [(line.text, line.unfinished) for line in seen] == [("2%", True)]
    assert file == b""
