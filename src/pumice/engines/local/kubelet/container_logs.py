"""What containers print: taken line by line, kept in a file, and handed on to whoever watches.

A progress bar that rewrites its line with carriage returns is handed on as updates of one line, and kept as its last
state. Lines come in batches, as they are read: a program that prints a hundred thousand of them a second is kept up
with.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

_CHUNK: Final = 65536
# A line that never ends must not fill the memory: it is handed on in pieces of this length.
LONGEST_LINE: Final = 64 * 1024
_PRIVATE: Final = 0o600
_LONGEST_CHARACTER: Final = 4
_CONTINUED: Final = 0b10  # how the bytes of a character begin, but for its first
# What ends a traceback says more than what a shell or a library prints when it cleans up after it.
_EXCEPTION: Final = re.compile(r"(?:\[rank\d+\]:\s*)?(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:: .*)?")
_AFTERWORDS: Final = 5
_LOOKED_AT: Final = 50


@dataclass(frozen=True, slots=True)
class LogLine:
    pod: str  # short name
    container: str
    stream: str  # stdout or stderr
    text: str
    unfinished: bool = False  # the line will be written anew: a progress bar


Watcher = Callable[[Sequence[LogLine]], None]


class Sink(Protocol):
    """Where a container's output is kept."""

    def write(self, data: bytes) -> object: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class LogPump:
    """One stream of one container, from its pipe to its file and its watcher."""

    pod: str
    container: str
    stream: str
    file: Sink
    watch: Watcher
    _tail: deque[str] = field(default_factory=lambda: deque(maxlen=_AFTERWORDS + 1))
    _rest: bytes = b""  # of the line that has not ended: of a progress bar, only its newest state
    _shown: bytes = b""  # what was handed on of it
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> int:
        """The end of a pipe that the container writes to; to be closed by the caller once the container has it."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._read, reading)
        return writing

    @property
    def last_line(self) -> str:
        """The last that says something: an exception, even if a few lines follow it, else whatever came last."""
        raised = (line for line in reversed(self._tail) if _EXCEPTION.fullmatch(line))
        return next(raised, self._tail[-1] if self._tail else "")

    async def drained(self) -> None:
        await self._done.wait()

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
            return
        asyncio.get_running_loop().remove_reader(pipe)
        os.close(pipe)
        # Whatever else goes wrong, nobody may wait for this for ever.
        self._done.set()
        if self._rest:
            self._tell([self._rest], b"")

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        while len(rest) > LONGEST_LINE and b"\r" not in rest:
            end = _whole_characters(rest, LONGEST_LINE)
            lines.append(rest[:end])
            rest = rest[end:]
        self._rest = _newest(rest)
        self._tell(lines, self._rest if b"\r" in self._rest else b"")

    def _tell(self, lines: Sequence[bytes], bar: bytes) -> None:
        """Hand on lines that have ended, and the state of a progress bar that has not."""
        ended = [_visible(line) for line in lines]
        told = [self._line(line) for line in ended]
        self._tail.extend(words for line in told[-_LOOKED_AT:] if (words := line.text.strip()))
        if ended:
            self._shown = b""
            self.file.write(b"".join(line + b"\n" for line in ended))
        state = _visible(bar)
        if state and state != self._shown:
            self._shown = state
            told.append(self._line(state, unfinished=True))
        if told:
            self.watch(told)

    def _line(self, line: bytes, *, unfinished: bool = False) -> LogLine:
        return LogLine(self.pod, self.container, self.stream, line.decode("utf-8", "replace"), unfinished)


@dataclass(slots=True)
class LogFile:
    """Shared by both streams of a container, and there as soon as there is something in it.

    A disk that is full costs the rest of the log, not the job.
    """

    path: Path
    warn: Callable[[str], None]
    _descriptor: int | None = None
    _given_up: bool = False

    def write(self, data: bytes) -> None:
        if self._given_up:
            return
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._given_up = True
            self.close()
            why = (error.strerror or str(error)).lower()
            self.warn(f"logs are shown but no longer kept: {self.path.parent}: {why}")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _open(self) -> int:
        # Not for others to read: programs print secrets.
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)


def _newest(rest: bytes) -> bytes:
    """Of a progress bar only what is visible, and whether it is about to be written over."""
    if b"\r" not in rest:
        return rest
    before, _, after = rest.rpartition(b"\r")
    if after:
        return b"\r" + after[-LONGEST_LINE:]
    return _visible(before)[-LONGEST_LINE:] + b"\r"


def _visible(line: bytes) -> bytes:
    """What a terminal would show in the end of a line that was written over."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _whole_characters(text: bytes, end: int) -> int:
    """Where to cut, so that no character of UTF-8 is cut in two; in other bytes, right there."""
    for cut in range(end, end - _LONGEST_CHARACTER, -1):
        if text[cut] >> 6 != _CONTINUED:
            return cut
    return end
