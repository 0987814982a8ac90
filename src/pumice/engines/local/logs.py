"""What containers print: taken line by line, kept in a file, and handed on to whoever watches.

A progress bar that rewrites its line with carriage returns is handed on as updates of one line, and kept as its last
state.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

_CHUNK = 65536
# A line that never ends must not fill the memory.
LONGEST_LINE = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    pod: str  # short name
    container: str
    stream: str  # stdout or stderr
    text: str
    unfinished: bool = False  # the line will be written anew: a progress bar


Watcher = Callable[[LogLine], None]


@dataclass(slots=True)
class LogPump:
    """One stream of one container, from its pipe to its file and its watcher."""

    pod: str
    container: str
    stream: str
    file: BinaryIO
    watch: Watcher
    last_line: str = ""
    _rest: bytes = b""
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> int:
        """The end of a pipe that the container writes to; to be closed by the caller once the container has it."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._read, reading)
        return writing

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
        if self._rest:
            self._tell(self._rest, unfinished=False)
        self.file.flush()
        self._done.set()

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(line, unfinished=False)
        if len(self._rest) > LONGEST_LINE:
            self._tell(self._rest, unfinished=False)
            self._rest = b""
        elif b"\r" in self._rest:
            # Only the newest state of a progress bar matters. What follows the last return is still being written.
            done, _, self._rest = self._rest.rpartition(b"\r")
            if shown := done.rpartition(b"\r")[2]:
                self._tell(shown, unfinished=True)

    def _tell(self, line: bytes, *, unfinished: bool) -> None:
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
        if not unfinished:
            self.file.write(text.encode() + b"\n")
            self.last_line = text.strip() or self.last_line
        self.watch(LogLine(self.pod, self.container, self.stream, text, unfinished))


def open_log(directory: Path, pod: str, container: str, attempt: int) -> BinaryIO:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return (directory / f"{pod}.{container}.{attempt}.log").open("ab", buffering=0)
