"""Writes the log of a container: plain text in segments, and beside each segment its index."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pumice.store.logs.log_index import GAP, RECORD, STDERR, encode_record, index_of

SEGMENT: Final = 64 << 20
_PRIVATE: Final = 0o600


class LogFile(Struct):
    """Shared by both streams of a container; created with the first line.

    A full disk costs a part of the log, not the job: a line of the log says how much is missing, and the log resumes as
    soon as there is room. With a limit the log continues in further files, its segments: `c.0.log`, `c.0.1.log`,
    `c.0.2.log`. Above the limit the oldest are removed, but not the first, which has the configuration and the first
    error; its last line says what is missing.
    """

    path: Path
    warn: Callable[[str], None]
    number: Callable[[], int]  # the next sequence number of the run
    most: int | None = None  # bytes
    segment: int = SEGMENT
    clock: Callable[[], int] = time.time_ns
    _text: int | None = None
    _index: int | None = None
    _records: int = 0  # of the index of this segment
    _sizes: list[int] = field(default_factory=lambda: [0])
    _removed: int = 0  # segments after the first
    _lost: int = 0  # bytes that are not yet mentioned in the log
    _why: str = ""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        """Append whole lines. What cannot be written is counted, and mentioned before the next lines that can."""
        try:
            if self.most is not None and 0 < self._sizes[-1] > self.segment - len(data):
                self._next_segment(self.most)
            self._append(data, STDERR if stream == "stderr" else 0)
        except OSError as error:
            if not self._lost:
                self._why = (error.strerror or str(error)).lower()
                self.warn(f"logs are shown but no longer written to {self.path.parent}: {self._why}")
            self._lost += len(data)

    def close(self) -> None:
        if self._lost:
            with suppress(OSError):  # there is still no room, not even for the line about it
                self._append(b"", 0)
        self._close()

    def _append(self, data: bytes, flags: int) -> None:
        gap = f"[pumice: {self._lost} bytes are missing here: {self._why}]\n".encode() if self._lost else b""
        if self._text is None:
            self._text = _open(self._segment(len(self._sizes) - 1))
        begin = self._sizes[-1]
        _append_all(self._text, begin, gap + data)
        end = self._sizes[-1] = begin + len(gap) + len(data)
        now = self.clock()
        records = encode_record(self.number(), now, begin + len(gap), 1, GAP) if gap else b""
        records += encode_record(self.number(), now, end, data.count(b"\n"), flags) if data else b""
        self._lost = 0
        if not records:
            return
        # Without its records, the text belongs to the record that follows.
        with suppress(OSError):
            if self._index is None:
                self._index = _open(index_of(self._segment(len(self._sizes) - 1)))
            _append_all(self._index, self._records * RECORD, records)
            self._records += len(records) // RECORD

    def _close(self) -> None:
        for descriptor in (self._text, self._index):
            if descriptor is not None:
                os.close(descriptor)
        self._text = self._index = None

    def _next_segment(self, most: int) -> None:
        """Keep the first segment and the newest ones, and room for the next."""
        self._close()
        self._sizes.append(0)
        self._records = 0
        while sum(self._sizes) - sum(self._sizes[1 : 1 + self._removed]) + self.segment > most:
            if self._removed + 2 >= len(self._sizes):
                return
            self._removed += 1
            removed = self._segment(self._removed)
            removed.unlink(missing_ok=True)
            index_of(removed).unlink(missing_ok=True)
            gone = sum(self._sizes[1 : 1 + self._removed])
            with self.path.open("r+b") as first:
                first.truncate(self._sizes[0])
                first.seek(self._sizes[0])
                first.write(f"[pumice: {gone} bytes are missing here: the log is larger than {most} bytes]\n".encode())

    def _segment(self, number: int) -> Path:
        return self.path.with_suffix(f".{number}.log") if number else self.path


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, _PRIVATE)
    except FileNotFoundError:
        # Private, because programs print secrets.
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, flags, _PRIVATE)


def _append_all(file: int, size: int, data: bytes) -> None:
    """Append all of the data, or nothing: on a full disk the part that fits would be half a line."""
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        with suppress(OSError):  # such as /dev/full, which has no size
            os.ftruncate(file, size)
        raise
