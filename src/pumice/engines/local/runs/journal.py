"""The journal of a run: one JSON object per line, in the order of `seq`. It is the truth about the run.

A record is one write, so that a killed writer leaves at most one incomplete line at the end. Readers ignore that line;
the next owner removes it.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.engines.local.logs.log_reader import LogReader

FILE: Final = "journal.jsonl"
RESERVE: Final = "reserve"
_RESERVED: Final = 256 << 10


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`time` is the wall clock, `t` a clock that goes on evenly."""

    seq: int
    time: dt.datetime
    t: float
    kind: str
    data: Any = None


_DECODER: Final = msgspec.json.Decoder(Entry)


@dataclass(slots=True)
class SequenceNumbers:
    """The total order of a run: journal entries and batches of logs share one counter."""

    last: int = 0

    def next(self) -> int:
        self.last += 1
        return self.last


@dataclass(slots=True)
class Journal:
    """The writer. A full disk costs the reserve first; without it, entries are lost and `lost` is called once."""

    directory: Path
    numbers: SequenceNumbers
    now: Callable[[], dt.datetime]
    elapsed: Callable[[], float]
    lost: Callable[[str], None] = lambda _reason: None
    _descriptor: int = -1
    _reported: bool = False

    def open(self) -> list[Entry]:
        """Open the journal for appending, and return what it contains. Removes an incomplete last line."""
        path = self.directory / FILE
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        content = path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            os.ftruncate(self._descriptor, complete)
        entries = list(_entries(content[:complete]))
        # Logs may be newer than the journal.
        newest_log = LogReader(self.directory).newest_sequence()
        self.numbers.last = max([self.numbers.last, newest_log, *(entry.seq for entry in entries)])
        self._keep_reserve()
        return entries

    def append(self, kind: str, data: Any = None, *, sync: bool = False) -> Entry:
        """With `sync`, return only when the entry survives a power failure."""
        entry = Entry(self.numbers.next(), self.now(), round(self.elapsed(), 6), kind, data)
        line = msgspec.json.encode(entry) + b"\n"
        try:
            self._write(line)
            if sync:
                os.fdatasync(self._descriptor)
        except OSError as error:
            self._report(error)
        return entry

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        (self.directory / RESERVE).unlink(missing_ok=True)

    def _write(self, line: bytes) -> None:
        size = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
        except OSError:
            if not self._spend_reserve():
                raise
            written = os.write(self._descriptor, line)
        if written < len(line):
            os.ftruncate(self._descriptor, size)
            if not self._spend_reserve():
                raise OSError(28, "no space left on device", str(self.directory / FILE))
            os.write(self._descriptor, line)

    def _keep_reserve(self) -> None:
        """Keep room for the last entries of a run on a full disk."""
        try:
            descriptor = os.open(self.directory / RESERVE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, _RESERVED)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._report(error)

    def _spend_reserve(self) -> bool:
        try:
            (self.directory / RESERVE).unlink()
        except OSError:
            return False
        return True

    def _report(self, error: OSError) -> None:
        if not self._reported:
            self._reported = True
            self.lost((error.strerror or str(error)).lower())


def read_journal(directory: Path, offset: int = 0) -> tuple[list[Entry], int]:
    """Return the complete entries from an offset on, and the offset after them."""
    try:
        with (directory / FILE).open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return [], offset
    complete = content.rfind(b"\n") + 1
    return list(_entries(content[:complete])), offset + complete


def _entries(content: bytes) -> Iterator[Entry]:
    """Yield the entries; lines that are damaged are skipped."""
    for line in content.splitlines():
        try:
            yield _DECODER.decode(line)
        except (msgspec.DecodeError, ValueError):
            continue
