"""Reads what containers print, line by line, for the log file and the listeners of the run.

A progress bar that rewrites its line with carriage returns becomes updates of one line; the log file gets its last
state. Lines are passed on in batches, as they are read, which is fast enough for a hundred thousand lines a second.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct, field

from pumice.diagnosis.failure_lines import LONGEST, LOOKED_AT, cause_line
from pumice.store.events import LogGate, LogLine

_CHUNK: Final = 65536
# Longer lines are split, to bound memory.
LONGEST_LINE: Final = 64 * 1024
_LONGEST_CHARACTER: Final = 4
_CONTINUED: Final = 0b10  # the first bits of all but the first byte of a character


Watcher = Callable[[Sequence[LogLine]], None]


class Sink(Protocol):
    """The log file of a container."""

    def write(self, data: bytes, stream: str) -> object: ...

    def close(self) -> None: ...


class LogPump(Struct):
    """One stream of one container, from its pipe to its file and its watcher."""

    pod: str
    container: str
    stream: str
    file: Sink
    watch: Watcher
    gate: LogGate = field(default_factory=LogGate)
    _tail: deque[str] = field(default_factory=lambda: deque(maxlen=LOOKED_AT))
    _rest: bytes = b""  # the line that has not ended; of a progress bar, its newest state
    _shown: bytes = b""  # the state of the progress bar that was passed on last
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> int:
        """Return the end of a pipe for the container to write to; the caller closes it after the start."""
        reading, writing = os.pipe()
        # Programs open /dev/stdout again. The pipe belongs to this user, and the container may run as another one.
        os.fchmod(writing, 0o666)
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._read, reading)
        return writing

    def last_line(self, code: int) -> str:
        """Return the line that says why the container failed; without such a line, the last one that is not empty."""
        return cause_line(list(self._tail)) if code else "".join([*self._tail][-1:]).strip()

    async def drained(self) -> None:
        await self._done.wait()

    def _read(self, pipe: int) -> None:
        if self.gate.closed:
            loop = asyncio.get_running_loop()
            loop.remove_reader(pipe)
            self.gate.when_open(lambda: loop.add_reader(pipe, self._read, pipe))
            return
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
            return
        asyncio.get_running_loop().remove_reader(pipe)
        os.close(pipe)
        # First, so that an error below blocks no other container.
        self._done.set()
        if self._rest:
            self._pass_on([self._rest], b"")

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        while len(rest) > LONGEST_LINE and b"\r" not in rest:
            end = _whole_characters(rest, LONGEST_LINE)
            lines.append(rest[:end])
            rest = rest[end:]
        self._rest = _newest(rest)
        self._pass_on(lines, self._rest if b"\r" in self._rest else b"")

    def _pass_on(self, lines: Sequence[bytes], bar: bytes) -> None:
        """Write and emit lines that have ended, and emit the state of a progress bar."""
        ended = [_visible(line) for line in lines]
        passed = [self._line(line) for line in ended]
        self._tail.extend(words for line in passed[-LOOKED_AT:] if (words := line.text[:LONGEST].rstrip()))
        if ended:
            self._shown = b""
            self.file.write(b"\n".join((*ended, b"")), self.stream)
        state = _visible(bar)
        if state and state != self._shown:
            self._shown = state
            passed.append(self._line(state, unfinished=True))
        if passed:
            self.watch(passed)

    def _line(self, line: bytes, *, unfinished: bool = False) -> LogLine:
        return LogLine(self.pod, self.container, self.stream, line.decode("utf-8", "replace"), unfinished)


def _newest(rest: bytes) -> bytes:
    """Reduce a progress bar to what is visible, with a mark if the next output overwrites it."""
    if b"\r" not in rest:
        return rest
    before, _, after = rest.rpartition(b"\r")
    if after:
        return b"\r" + after[-LONGEST_LINE:]
    return _visible(before)[-LONGEST_LINE:] + b"\r"


def _visible(line: bytes) -> bytes:
    """Return what a terminal shows at the end of a line that was overwritten."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _whole_characters(text: bytes, end: int) -> int:
    """Return where to split, without splitting a UTF-8 character; bytes that are not UTF-8 are split at `end`."""
    for cut in range(end, end - _LONGEST_CHARACTER, -1):
        if text[cut] >> 6 != _CONTINUED:
            return cut
    return end
