"""Numbers all lines of a run: it maps a number to a batch of a log. The text stays where it is until it is shown.

Batches of logs and entries of the journal share one counter, which gives their order. A number never changes: a line
that is found later comes after all others.
"""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pumice.store.history.event_log import Mark
from pumice.store.logs.log_index import RECORD, Records, decode_records
from pumice.store.logs.log_reader import LogReader
from pumice.store.logs.log_source import Execution, index_path, read_part, size_of, stream_of

_BLOCK: Final = 1 << 20
_RECORDS: Final = 1 << 16  # bytes of an index that are decoded at once
_NO_LOG: Final = -1
_LOOK_AGAIN: Final = 2.0  # seconds until new logs are looked for without a reason
ERROR: Final = re.compile(
    rb"^[^\n]*(?:Traceback \(most recent call last\)|(?:Error|Exception)(?::|$)|\b(?:ERROR|FATAL|CRITICAL)\b"
    rb"|\b(?:fatal|panic|error): |Segmentation fault|CUDA out of memory|No space left on device)[^\n]*",
    re.MULTILINE,
)
Row = tuple[int, int, int, int, int, int, int]  # sequence number, log, begin, size, lines, time, flags


class LogStorage(Protocol):
    """Where the logs of a run are: each is text with records, which name its batches in their order."""

    truncated: bool  # whether lines were removed, because the log was larger than its limit

    def logs(self) -> Sequence[tuple[str, Execution]]:
        """Return the logs that exist by now, each with what names it below: a segment is a log of its own."""

    def records(self, name: str, number: int, begin: int) -> Records | None:
        """Return records from a number on, whose text begins at `begin`; None if there are none yet."""

    def read(self, name: str, offset: int, size: int) -> bytes: ...

    def size(self, name: str) -> int:
        """Return the number of bytes of the text."""


@dataclass(slots=True)
class LogFiles:
    """The logs in the directory of a run."""

    directory: Path
    truncated: bool = False
    _reader: LogReader = field(init=False)

    def __post_init__(self) -> None:
        self._reader = LogReader(self.directory)

    def logs(self) -> Sequence[tuple[str, Execution]]:
        sources = self._reader.sources()
        self.truncated = any(each.segments[-1] >= len(each.segments) for each in sources)
        return [(each.execution.segment(segment), each.execution) for each in sources for segment in each.segments]

    def records(self, name: str, number: int, begin: int) -> Records | None:
        index = index_path(name)
        if size_of(index) < (number + 1) * RECORD:
            return None
        return decode_records(read_part(index, number * RECORD, _RECORDS), begin)

    def read(self, name: str, offset: int, size: int) -> bytes:
        return read_part(name, offset, size)

    def size(self, name: str) -> int:
        return size_of(name)


@dataclass(slots=True)
class NumberedPart:
    """A log. `records` and `end` say how much of it was read."""

    name: str
    execution: Execution
    records: int = 0
    end: int = 0
    rows: array[int] = field(default_factory=lambda: array("I"))
    scanned: int = 0  # rows that were searched for errors
    ahead: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)  # read, but not yet due


@dataclass(slots=True, eq=False)
class NumberedLog:
    """Call `find` before the marks are read, and `number` after it. `live`: a process still writes to the logs."""

    storage: LogStorage
    live: bool
    parts: list[NumberedPart] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)  # those that have a number
    # A row for each batch: number of its log (or of its mark), where its text begins, its size, lines, time, flags.
    seqs: array[int] = field(default_factory=lambda: array("q"))
    part: array[int] = field(default_factory=lambda: array("i"))
    begin: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("I"))
    lines: array[int] = field(default_factory=lambda: array("I"))
    times: array[int] = field(default_factory=lambda: array("Q"))
    flags: array[int] = field(default_factory=lambda: array("B"))
    errors: array[int] = field(default_factory=lambda: array("H"))
    _names: set[str] = field(default_factory=set)
    _newest: int = -1
    _found: int = -1
    _looked: float = float("-inf")

    def find(self) -> None:
        """Read what was printed by now. Whatever Pumice said before is in the journal when this returns."""
        if time.monotonic() - self._looked >= _LOOK_AGAIN:
            self._find_logs()
        self._read_records()
        self._found = max((each.ahead[-1][0] for each in self.parts if each.ahead), default=-1)

    def number(self, marks: Sequence[Mark], newest: int) -> None:
        """Number lines up to the newest known sequence number: all earlier ones are in the logs by now.

        `marks` are those after the ones that have a number; `newest` is the number of the newest entry of the journal.
        """
        if self._found < 0 and newest == self._newest and not marks and self.seqs and self.live:
            return
        bound = max(self._found, newest)
        if newest != self._newest:
            # A new pod is a new entry.
            self._find_logs()
        self._newest = newest
        self._read_records()
        rows: list[Row] = []
        for number, each in enumerate(self.parts):
            due = [row for row in each.ahead if row[0] <= bound or not self.live]
            each.ahead = each.ahead[len(due) :]
            rows += [(row[0], number, *row[1:]) for row in due]
            if not self.live and not each.rows:
                rows += self._unindexed(number, each, due[-1][0] if due else -1)
        for mark in marks:
            if mark.seq > bound and self.live:
                break
            rows.append((mark.seq, _NO_LOG, len(self.marks), 0, 1, mark.time, 0))
            self.marks.append(mark)
        rows.sort()
        for seq, number, begin, size, lines, moment, flags in rows:
            self.seqs.append(seq)
            self.part.append(number)
            self.begin.append(begin)
            self.size.append(size)
            self.lines.append(lines)
            self.times.append(moment)
            self.flags.append(flags)
            self.errors.append(0)
            if number != _NO_LOG:
                self.parts[number].rows.append(len(self.seqs) - 1)

    def _find_logs(self) -> None:
        for name, execution in self.storage.logs():
            if name not in self._names:
                self._names.add(name)
                self.parts.append(NumberedPart(name, execution))
        self._looked = time.monotonic()

    def _read_records(self) -> None:
        """Read the new records of all logs into `ahead`."""
        for each in self.parts:
            while (records := self.storage.records(each.name, each.records, each.end)) is not None:
                before = each.ahead[-1][0] if each.ahead else 0
                for seq, moment, end, lines, flags in zip(
                    records.sequence, records.times, records.ends, records.lines, records.flags, strict=True
                ):
                    each.records += 1
                    if end <= each.end:
                        before = -1  # damaged: its text belongs to the record that follows
                        continue
                    size = end - each.end
                    count = lines if before >= 0 else self.storage.read(each.name, each.end, size).count(b"\n") or 1
                    each.ahead.append((seq, each.end, size, max(count, 1), moment, flags))
                    each.end, before = end, seq
                if not records.ends:
                    break

    def _unindexed(self, number: int, each: NumberedPart, after: int) -> list[Row]:
        """Return a row for text without record, which a killed writer or a full disk leaves."""
        size = self.storage.size(each.name) - each.end
        if size <= 0:
            return []
        begin, lines, last = each.end, 0, b"\n"
        while block := self.storage.read(each.name, begin, _BLOCK):
            begin, lines, last = begin + len(block), lines + block.count(b"\n"), block[-1:]
        lines += last != b"\n"
        row = (after, number, each.end, min(size, (1 << 32) - 1), max(lines, 1), 0, 0)
        each.end += size
        return [row]

    def text(self, row: int) -> list[bytes]:
        """Return the lines of a batch: as many as it was numbered with."""
        number, count = self.part[row], self.lines[row]
        if number == _NO_LOG:
            return [self.marks[self.begin[row]].text.encode()]
        content = self.storage.read(self.parts[number].name, self.begin[row], self.size[row])
        found = content.removesuffix(b"\n").split(b"\n", count - 1)
        return found + [b""] * (count - len(found))

    def mark(self, row: int) -> Mark | None:
        return self.marks[self.begin[row]] if self.part[row] == _NO_LOG else None

    def execution(self, row: int) -> Execution:
        return self.parts[self.part[row]].execution

    def stream(self, row: int) -> str:
        return stream_of(self.times[row], self.flags[row])

    def matches(self, pattern: re.Pattern[bytes], number: int, first: int = 0) -> Iterator[tuple[int, int]]:
        """Yield row and line in it of each line of a log that matches, from its row `first` on."""
        each = self.parts[number]
        rows, start = each.rows, first
        while start < len(rows):
            begin, end = self.begin[rows[start]], start + 1
            while end < len(rows) and self.begin[rows[end]] + self.size[rows[end]] - begin <= _BLOCK:
                end += 1
            last = rows[end - 1]
            text = self.storage.read(each.name, begin, self.begin[last] + self.size[last] - begin)
            starts = [self.begin[row] - begin for row in rows[start:end]]
            before = (-1, -1)
            for match in pattern.finditer(text):
                position = bisect_right(starts, match.start()) - 1
                row = rows[start + position]
                line = text.count(b"\n", starts[position], match.start())
                found = (row, min(line, self.lines[row] - 1))
                if found != before:
                    yield found
                before = found
            start = end

    def scan_errors(self, most: int) -> bool:
        """Count the lines with errors in about `most` bytes that were not searched yet. False if some are left."""
        for number, each in enumerate(self.parts):
            if each.scanned == len(each.rows):
                continue
            if most <= 0:
                return False
            first, each.scanned = each.scanned, len(each.rows)
            for row, _ in self.matches(ERROR, number, first):
                self.errors[row] = min(self.errors[row] + 1, 0xFFFF)
            most -= sum(self.size[row] for row in each.rows[first:])
        return True
