"""The journal of a run: one JSON object per line, in the order of `seq`. `run_history.py` derives its state from it.

A record is one write, so that a killed writer leaves at most one incomplete line at the end. Readers ignore that line;
the next owner removes it.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from pumice.store.logs.log_reader import LogReader
from pumice.store.run_errors import StoreError
from pumice.store.run_record import Moment

FILE: Final = "journal.jsonl"
RESERVE: Final = "reserve"
_RESERVED: Final = 256 << 10
_STEP: Final = 8 << 10  # of the reserve, a few blocks


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`time` is the wall clock, `t` a monotonic clock."""

    seq: int
    time: Moment
    t: float
    kind: str
    data: msgspec.Raw = msgspec.Raw(b"null")

    def plain(self) -> Any:
        """Return the data as JSON has it."""
        return msgspec.json.decode(self.data)


_DECODER: Final = msgspec.json.Decoder(Entry)


class SequenceNumbers(Struct):
    """The total order of a run: journal entries and batches of logs share one counter."""

    last: int = 0

    def next(self) -> int:
        self.last += 1
        return self.last


class Journal(Struct):
    """The writer. On a full disk it uses the reserve; without it, entries are lost, and `lost` is called once."""

    directory: Path
    numbers: SequenceNumbers
    now: Callable[[], dt.datetime]
    elapsed: Callable[[], float]
    lost: Callable[[str], None] = lambda _reason: None
    _descriptor: int = -1
    _reported: bool = False
    _spent: bool = False  # some of the reserve

    def open(self) -> list[Entry]:
        """Open the journal for appending, and return what it contains. Removes an incomplete last line."""
        path = self.directory / FILE
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        content = path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            os.ftruncate(self._descriptor, complete)
        entries = list(_decode_lines(content[:complete].splitlines()))
        # Logs may be newer than the journal.
        newest_log = LogReader(self.directory).newest_sequence()
        self.numbers.last = max([self.numbers.last, newest_log, *(entry.seq for entry in entries)])
        self._keep_reserve()
        return entries

    def append(self, kind: str, data: Any = None, *, sync: bool = False) -> Entry:
        """With `sync`, return only when the entry survives a power failure."""
        raw = msgspec.Raw(msgspec.json.encode(data))
        entry = Entry(self.numbers.next(), self.now(), round(self.elapsed(), 6), kind, raw)
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
        while True:
            try:
                if os.write(self._descriptor, line) == len(line):
                    break
                os.ftruncate(self._descriptor, size)
                error = OSError(errno.ENOSPC, "no space left on device", str(self.directory / FILE))
            except OSError as found:
                error = found
            if not self.make_room(len(line)):
                raise error
        if self._spent:
            disk = os.fstatvfs(self._descriptor)
            if disk.f_bavail * disk.f_frsize > 4 * _RESERVED:
                self._spent = False
                self._keep_reserve()

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

    def make_room(self, size: int) -> bool:
        """Free as much of the reserve as is needed on a full disk: other programs would use the rest."""
        path = self.directory / RESERVE
        try:
            left = path.stat().st_size
            os.truncate(path, max(0, left - (size // _STEP + 1) * _STEP))
        except OSError:
            return False
        self._spent = True
        return left > 0

    def _report(self, error: OSError) -> None:
        if not self._reported:
            self._reported = True
            self.lost((error.strerror or str(error)).lower())


class JournalPart(NamedTuple):
    """What a journal has from an offset on; `offset` is the one after it."""

    entries: list[Entry]
    offset: int
    damaged: int = 0  # lines that cannot be read


def read_journal(directory: Path, offset: int = 0) -> JournalPart:
    """Return the complete entries from an offset on. Raises StoreError."""
    try:
        # Without O_NONBLOCK, a pipe of that name would stop the reader; it cannot seek.
        with open(directory / FILE, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            # The next owner of the run may have removed an incomplete line.
            offset = min(offset, os.fstat(file.fileno()).st_size)
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return JournalPart([], 0)
    except OSError as error:
        raise StoreError(f"{directory / FILE}: {(error.strerror or str(error)).lower()}") from error
    complete = content.rfind(b"\n") + 1
    lines = content[:complete].splitlines()
    entries = list(_decode_lines(lines))
    return JournalPart(entries, offset + complete, len(lines) - len(entries))


def _decode_lines(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Yield the entries; lines that are damaged are skipped."""
    for line in lines:
        try:
            yield _DECODER.decode(line)
        except (msgspec.DecodeError, ValueError):
            continue
