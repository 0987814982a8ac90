"""Numbers all lines of a run: it maps a number to a batch of a file. The text stays in the files until it is shown.

Batches of logs and entries of the journal share one counter, which gives their order. A number never changes: a line
that is found later comes after all others.
"""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pumice.engines.local.logs.log_index import GAP, RECORD, STDERR, decode_records
from pumice.engines.local.logs.log_reader import LogReader
from pumice.engines.local.logs.log_source import Execution
from pumice.ui.data.files import read_part, size_of

_BLOCK: Final = 1 << 20
_RECORDS: Final = 1 << 16  # bytes of an index that are decoded at once
_NO_FILE: Final = -1
_LOOK_AGAIN: Final = 2.0  # seconds until new logs are looked for without a reason
ERROR: Final = re.compile(
    rb"^[^\n]*(?:Traceback \(most recent call last\)|(?:Error|Exception)(?::|$)|\b(?:ERROR|FATAL|CRITICAL)\b"
    rb"|\b(?:fatal|panic|error): |Segmentation fault|CUDA out of memory|No space left on device)[^\n]*",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """What Pumice says between the lines: a phase, a policy, a pod that failed."""

    seq: int
    time: int  # nanoseconds since 1970
    kind: str
    text: str
    attempt: int
    pod: str = ""


@dataclass(slots=True)
class _File:
    """A segment of a log. `records` and `end` say how much of it is numbered."""

    path: str
    execution: Execution
    records: int = 0
    end: int = 0
    rows: array[int] = field(default_factory=lambda: array("I"))
    scanned: int = 0  # rows that were searched for errors
    ahead: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)  # read, but not yet due


@dataclass(slots=True, eq=False)
class LogIndex:
    """`marks` returns what Pumice says, up to now; it only ever grows. `newest` is the journal's sequence number."""

    directory: Path
    live: bool
    marks: Callable[[], tuple[Sequence[Mark], int]]
    files: list[_File] = field(default_factory=list)
    shown: list[Mark] = field(default_factory=list)
    # A row for each batch: number of its file (or of its mark), where its text begins, its size, lines, time, flags.
    seqs: array[int] = field(default_factory=lambda: array("q"))
    file: array[int] = field(default_factory=lambda: array("i"))
    begin: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("I"))
    lines: array[int] = field(default_factory=lambda: array("I"))
    times: array[int] = field(default_factory=lambda: array("Q"))
    flags: array[int] = field(default_factory=lambda: array("B"))
    errors: array[int] = field(default_factory=lambda: array("H"))
    _paths: dict[str, int] = field(default_factory=dict)
    _reader: LogReader | None = None
    _newest: int = -2
    _looked: float = float("-inf")

    def refresh(self) -> None:
        """Number new lines up to the newest known sequence number: all earlier ones are in the files by then."""
        marks, newest = self.marks()
        self._read_files(newest)
        found = max((each.ahead[-1][0] for each in self.files if each.ahead), default=-1)
        if found < 0 and len(marks) == len(self.shown) and self.seqs and self.live:
            return
        bound = max(found, newest)
        self._read_files(-1)
        rows: list[tuple[int, int, int, int, int, int, int]] = []
        for number, each in enumerate(self.files):
            due = [row for row in each.ahead if row[0] <= bound or not self.live]
            each.ahead = each.ahead[len(due) :]
            rows += [(row[0], number, *row[1:]) for row in due]
            if not self.live and not each.rows:
                rows += self._unindexed(number, each, due[-1][0] if due else -1)
        known = len(self.shown)
        for position, mark in enumerate(self.marks()[0][known:], known):
            if mark.seq > bound and self.live:
                break
            rows.append((mark.seq, _NO_FILE, position, 0, 1, mark.time, 0))
            self.shown.append(mark)
        rows.sort()
        for seq, number, begin, size, lines, moment, flags in rows:
            self.seqs.append(seq)
            self.file.append(number)
            self.begin.append(begin)
            self.size.append(size)
            self.lines.append(lines)
            self.times.append(moment)
            self.flags.append(flags)
            self.errors.append(0)
            if number != _NO_FILE:
                self.files[number].rows.append(len(self.seqs) - 1)

    def _read_files(self, newest: int) -> None:
        """Read the new records of all indexes into `ahead`. `newest` is the journal's: a new pod is a new entry."""
        now = time.monotonic()
        if self._reader is None:
            self._reader = LogReader(self.directory)
        known = newest == self._newest and now - self._looked < _LOOK_AGAIN
        for source in [] if known else self._reader.sources():
            for segment in source.segments:
                path = source.execution.segment(segment)
                if path not in self._paths:
                    self._paths[path] = len(self.files)
                    self.files.append(_File(path, source.execution))
        if not known:
            self._newest, self._looked = newest, now
        for each in self.files:
            self._read_records(each)

    def _read_records(self, each: _File) -> None:
        index = f"{each.path.removesuffix('.log')}.idx"
        while True:
            if size_of(index) < (each.records + 1) * RECORD:
                return
            block = read_part(index, each.records * RECORD, _RECORDS)
            records = decode_records(block, each.end)
            before = each.ahead[-1][0] if each.ahead else 0
            for seq, moment, end, lines, flags in zip(
                records.sequence, records.times, records.ends, records.lines, records.flags, strict=True
            ):
                each.records += 1
                if end <= each.end:
                    before = -1  # damaged: its text belongs to the record that follows
                    continue
                size = end - each.end
                count = lines if before >= 0 else read_part(each.path, each.end, size).count(b"\n") or 1
                each.ahead.append((seq, each.end, size, max(count, 1), moment, flags))
                each.end, before = end, seq
            if not records.ends:
                return

    def _unindexed(self, number: int, each: _File, after: int) -> list[tuple[int, int, int, int, int, int, int]]:
        """Return a row for text without record, which a killed writer or a full disk leaves."""
        size = size_of(each.path) - each.end
        if size <= 0:
            return []
        begin, lines, last = each.end, 0, b"\n"
        while block := read_part(each.path, begin, _BLOCK):
            begin, lines, last = begin + len(block), lines + block.count(b"\n"), block[-1:]
        lines += last != b"\n"
        row = (after, number, each.end, min(size, (1 << 32) - 1), max(lines, 1), 0, 0)
        each.end += size
        return [row]

    def text(self, row: int) -> list[bytes]:
        """Return the lines of a batch: as many as it was numbered with."""
        number, count = self.file[row], self.lines[row]
        if number == _NO_FILE:
            return [self.shown[self.begin[row]].text.encode()]
        content = read_part(self.files[number].path, self.begin[row], self.size[row])
        found = content.removesuffix(b"\n").split(b"\n", count - 1)
        return found + [b""] * (count - len(found))

    def mark(self, row: int) -> Mark | None:
        return self.shown[self.begin[row]] if self.file[row] == _NO_FILE else None

    def execution(self, row: int) -> Execution:
        return self.files[self.file[row]].execution

    def stream(self, row: int) -> str:
        if self.times[row] == 0 or self.flags[row] & GAP:
            return ""
        return "stderr" if self.flags[row] & STDERR else "stdout"

    def matches(self, pattern: re.Pattern[bytes], number: int, first: int = 0) -> Iterator[tuple[int, int]]:
        """Yield row and line in it of each line of a file that matches, from its row `first` on."""
        each = self.files[number]
        rows, start = each.rows, first
        while start < len(rows):
            begin, end = self.begin[rows[start]], start + 1
            while end < len(rows) and self.begin[rows[end]] + self.size[rows[end]] - begin <= _BLOCK:
                end += 1
            last = rows[end - 1]
            text = read_part(each.path, begin, self.begin[last] + self.size[last] - begin)
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
        for number, each in enumerate(self.files):
            if each.scanned == len(each.rows):
                continue
            if most <= 0:
                return False
            first, each.scanned = each.scanned, len(each.rows)
            for row, _ in self.matches(ERROR, number, first):
                self.errors[row] = min(self.errors[row] + 1, 0xFFFF)
            most -= sum(self.size[row] for row in each.rows[first:])
        return True
