"""The lines of a Job's logs that were read so far, in files that vanish with this process, for `NumberedLog`."""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from pumice.store.logs.log_index import Records
from pumice.store.logs.log_source import Execution, LogBatch

_LARGEST: Final = 128 << 20  # bytes of a file; the one before it is kept, too
_MICROSECOND: Final = 1000


@dataclass(slots=True)
class _Log:
    """One execution: a column for each fact of its batches."""

    execution: Execution
    sequence: array[int] = field(default_factory=lambda: array("Q"))
    times: array[int] = field(default_factory=lambda: array("Q"))
    flags: array[int] = field(default_factory=lambda: array("B"))
    lines: array[int] = field(default_factory=lambda: array("I"))
    positions: array[int] = field(default_factory=lambda: array("Q"))  # in the text of all logs
    ends: array[int] = field(default_factory=lambda: array("Q"))  # last: its length says how many batches there are


class _File:
    """A file without a name. It is closed when nothing refers to it: a thread may still read one that was dropped."""

    __slots__ = ("begin", "descriptor")

    def __init__(self, begin: int) -> None:
        self.begin = begin  # the position of its first byte
        with tempfile.TemporaryFile() as file:
            self.descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        os.close(self.descriptor)


@dataclass(slots=True)
class LogSpool:
    """The event loop adds, a thread reads. Nothing is shown before `release`: until then, earlier lines may come."""

    truncated: bool = False
    largest: int = _LARGEST
    is_released: bool = False
    _logs: dict[Execution, _Log] = field(default_factory=dict)
    _names: dict[str, _Log] = field(default_factory=dict)
    _files: list[_File] = field(default_factory=list)
    _end: int = 0

    def release(self) -> None:
        self.is_released = True

    def add(self, batches: Sequence[LogBatch]) -> None:
        """Add lines in the order of time. Neighbours of one execution become one batch."""
        for execution, group in groupby(batches, key=lambda each: each[1]):
            self._add(execution, list(group))

    def add_new(self, batches: Sequence[LogBatch]) -> None:
        """Add lines that were printed together: those of one execution become one batch."""
        for execution in dict.fromkeys(each[1] for each in batches):
            self._add(execution, [each for each in batches if each[1] is execution])

    def _add(self, execution: Execution, batches: Sequence[LogBatch]) -> None:
        _, _, time, flags, _ = batches[0]
        text = b"".join(each[4] for each in batches)
        log = self._logs.get(execution)
        if log is None:
            log = self._logs[execution] = _Log(execution)
            self._names[str(len(self._names))] = log
        position = self._write(text)
        # Within a log, lines stay in their order, even if the clock of its node is set.
        log.sequence.append(max(time // _MICROSECOND, log.sequence[-1] if log.sequence else 0))
        log.times.append(time)
        log.flags.append(flags)
        log.lines.append(max(1, text.count(b"\n")))
        log.positions.append(position)
        log.ends.append((log.ends[-1] if log.ends else 0) + len(text))

    def _write(self, text: bytes) -> int:
        if not self._files or self._end - self._files[-1].begin > self.largest:
            self._files = [*self._files, _File(self._end)]
        if len(self._files) > 2:  # noqa: PLR2004 - the newest, and the one before
            self._files = self._files[1:]
            self.truncated = True
        os.write(self._files[-1].descriptor, text)
        position, self._end = self._end, self._end + len(text)
        return position

    # --- LogStorage -----------------------------------------------------------------------------------------------

    def logs(self) -> Sequence[tuple[str, Execution]]:
        return [(name, log.execution) for name, log in list(self._names.items())] if self.is_released else ()

    def records(self, name: str, number: int, begin: int) -> Records | None:
        del begin
        log = self._names[name]
        end = len(log.ends)
        if number >= end:
            return None
        columns = (log.sequence, log.times, log.ends, log.lines, log.flags)
        return Records(*(column[number:end].tolist() for column in columns))

    def read(self, name: str, offset: int, size: int) -> bytes:
        log = self._names[name]
        first, last = bisect_right(log.ends, offset), bisect_right(log.ends, offset + size - 1)
        parts = []
        for number in range(first, min(last + 1, len(log.ends))):
            begin = log.ends[number - 1] if number else 0
            low, high = max(offset, begin), min(offset + size, log.ends[number])
            parts.append(self._read(log.positions[number] + low - begin, high - low))
        return b"".join(parts)

    def _read(self, position: int, size: int) -> bytes:
        """Return text; of text that was removed, as many spaces as it had bytes."""
        for file in reversed(self._files):
            if position >= file.begin:
                return os.pread(file.descriptor, size, position - file.begin)
        return b" " * size

    def size(self, name: str) -> int:
        log = self._names[name]
        return log.ends[-1] if log.ends else 0
