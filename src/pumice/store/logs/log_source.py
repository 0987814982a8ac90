"""Reads the log of one execution of a container, forwards and backwards, in windows of bounded size.

No file stays open between two windows, because a run may have more containers than a process may open files.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, repeat
from operator import add, mul
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.store.logs.log_index import GAP, RECORD, STDERR, Records, decode_records

BLOCK: Final = 512  # records that are decoded at once
UNKNOWN: Final = 0  # the time of text that has no record


class Execution(Struct, frozen=True, eq=False):
    """One execution of a container: `number` is that of the pod among those of its name, `restart` its restarts."""

    pod: str  # short name
    number: int
    attempt: int  # of the job
    container: str
    restart: int
    directory: str

    @property
    def order(self) -> tuple[int, str, int, int, str, int]:
        """The order of logs without index."""
        task, _, index = self.pod.rpartition("-")
        return (self.attempt, task, int(index) if index.isdecimal() else 0, self.number, self.container, self.restart)

    def segment(self, number: int) -> str:
        """Return the path of a segment; a string, because followers ask for it often."""
        middle = f".{number}" if number else ""
        return f"{self.directory}/{self.container}.{self.restart}{middle}.log"


# Whole lines that were printed together: sequence number, execution, nanoseconds since 1970, flags of the index, text.
# A plain tuple, because there may be hundreds of thousands of them.
LogBatch = tuple[int, Execution, int, int, bytes]


def stream_of(time: int, flags: int) -> str:
    """Return stdout or stderr; empty for lines that Pumice wrote, and for text without index."""
    if time == UNKNOWN or flags & GAP:
        return ""
    return "stderr" if flags & STDERR else "stdout"


class Position(Struct, frozen=True):
    segment: int = 0
    record: int = 0  # of the segment's index
    offset: int = 0  # in the segment's text
    sequence: int | None = None  # of the record before


class LogSource(Struct, eq=False):
    """`whole` is set when no process writes any more: then text without a record is shown too."""

    execution: Execution
    segments: list[int]
    prefix: bytes = b""  # of each line
    whole: bool = False
    unindexed: int = 0  # the sequence number of text before the first record
    at: Position = field(default_factory=Position)
    held: list[LogBatch] = field(default_factory=list)  # read, but not yet due

    def window(self, size: int) -> list[LogBatch]:
        """Return the next batches, about `size` bytes; none if there are no more at present."""
        if self.held:
            held, self.held = self.held, []
            return held
        while True:
            over = self._is_over(self.at.segment)
            found = self._indexed(size) or (self._rest(size) if over else [])
            if found or not over or self.at.segment >= self.segments[-1]:
                return found
            following = next(each for each in self.segments if each > self.at.segment)
            self.at = Position(following, sequence=self.at.sequence)

    def next_sequence(self) -> int | None:
        """Return a number that is not above that of the next batch; None if there is no batch at present."""
        if self.held:
            return self.held[0][0]
        path = self.execution.segment(self.at.segment)
        before = self.unindexed if self.at.sequence is None else self.at.sequence
        index = index_path(path)
        if size_of(index) >= (self.at.record + 1) * RECORD:
            return max(before, decode_records(read_part(index, self.at.record * RECORD, RECORD), 0).sequence[0])
        more = self.at.segment < self.segments[-1] or (self.whole and size_of(path) > self.at.offset)
        return before if more else None

    def newest_sequence(self) -> int:
        """Return the sequence number of the newest batch."""
        last = size_of(index_path(self.execution.segment(self.segments[-1]))) // RECORD
        if self.at.sequence is not None and self.at.segment == self.segments[-1] and self.at.record == last:
            return self.at.sequence
        newest = self._after_index(self.segments[-1]).sequence
        return self.unindexed if newest is None else newest

    def after_last(self, wanted: Callable[[int, int], bool]) -> Position | None:
        """Return the position after the last record with the wanted number and time; None if no record has them.

        Reads backwards: what follows is shown anyway, and times may jump, because clocks are set.
        """
        for segment in reversed(self.segments):
            for first, records, _ in self._blocks_back(segment):
                for index in range(len(records.ends) - 1, -1, -1):
                    number = records.sequence[index]
                    if number and wanted(number, records.times[index]):
                        return Position(segment, first + index + 1, records.ends[index], number)
        return None

    @property
    def modified(self) -> int | None:
        """When a log without index was last written to, in nanoseconds since 1970; None for one with an index."""
        paths = [self.execution.segment(segment) for segment in self.segments]
        return None if any(size_of(index_path(path)) for path in paths) else max(map(modified_at, paths))

    def end(self) -> Position:
        """Return the position after all that can be read at present."""
        at = self._after_index(self.segments[-1])
        return replace(at, offset=size_of(self.execution.segment(at.segment))) if self.whole else at

    def windows_back(self, size: int) -> Iterator[list[tuple[Position, LogBatch]]]:
        """Yield windows from the end to the current position, each in the order of the log."""
        for segment in reversed([each for each in self.segments if each >= self.at.segment]):
            low = self.at if segment == self.at.segment else Position(segment)
            if self._is_over(segment):
                end = self._after_index(segment)
                yield from self._rest_back(end if end.record > low.record else low, size)
            for first, records, begin in self._blocks_back(segment):
                starts = [max(start, low.offset) for start in (begin, *records.ends[:-1])]
                yield from self._block_back(Position(segment, first), max(0, low.record - first), records, starts, size)
                if first <= low.record:
                    break

    def _after_index(self, segment: int) -> Position:
        """Return the position after the last record of a segment, with the last number that is not damaged."""
        at = Position(segment)
        for number in reversed([each for each in self.segments if each <= segment]):
            for first, records, _ in self._blocks_back(number):
                if number == segment and not at.record:
                    at = Position(segment, first + len(records.ends), records.ends[-1])
                if records.sequence[-1]:
                    return replace(at, sequence=records.sequence[-1])
        return at

    def _is_over(self, segment: int) -> bool:
        """Whether nothing more is appended to a segment."""
        return self.whole or segment < self.segments[-1]

    def _indexed(self, size: int) -> list[LogBatch]:
        path = self.execution.segment(self.at.segment)
        while block := read_part(index_path(path), self.at.record * RECORD, BLOCK * RECORD):
            at, records = self.at, decode_records(block, self.at.offset)
            text = read_part(path, at.offset, size)
            count = bisect_right(records.ends, at.offset + len(text))
            if count:
                self.at = Position(
                    at.segment, at.record + count, records.ends[count - 1], records.sequence[count - 1] or at.sequence
                )
                if found := self._batches(records, count, at.offset, text):
                    return found
            elif text and records.ends:
                # A very long batch, or the text of records that were lost.
                part = text[: text.rfind(b"\n") + 1] or text
                self.at = Position(at.segment, at.record, at.offset + len(part), at.sequence)
                rest = (records.times[0], records.flags[0], self._prefixed(part))
                return [(records.sequence[0], self.execution, *rest)]
            elif records.ends and self._is_over(at.segment):
                # The text of these records was lost.
                self.at = Position(at.segment, at.record + len(records.ends), at.offset, at.sequence)
            else:
                break
        return []

    def _batches(self, records: Records, count: int, begin: int, text: bytes) -> list[LogBatch]:
        """Cut the text into batches. With a prefix, their ends move by as much as the lines before them need."""
        ends = [end - begin for end in records.ends[:count]]
        lines = list(accumulate(records.lines[:count]))
        moved = self.prefix and text.count(b"\n", 0, ends[-1]) == lines[-1]
        if moved:
            text = self.prefix + text[: ends[-1]].replace(b"\n", b"\n" + self.prefix)
            ends = list(map(add, ends, map(mul, lines, repeat(len(self.prefix)))))
        parts = [text[start:end] for start, end in zip((0, *ends[:-1]), ends, strict=True)]
        if self.prefix and not moved:
            # The first batch was shown in part, or a record is damaged.
            parts = [self._prefixed(part) for part in parts]
        rows = zip(records.sequence, repeat(self.execution), records.times, records.flags, parts, strict=False)
        return list(rows) if all(parts) else [row for row in rows if row[-1]]

    def _prefixed(self, text: bytes) -> bytes:
        lines = text.removesuffix(b"\n").replace(b"\n", b"\n" + self.prefix)
        return self.prefix + lines + b"\n" if text else b""

    def _rest(self, size: int) -> list[LogBatch]:
        at, text = self.at, read_part(self.execution.segment(self.at.segment), self.at.offset, size)
        part = text[: text.rfind(b"\n") + 1] or text
        self.at = Position(at.segment, at.record, at.offset + len(part), at.sequence)
        return [self._without_record(at, self._prefixed(part))] if part else []

    def _rest_back(self, begin: Position, size: int) -> Iterator[list[tuple[Position, LogBatch]]]:
        path = self.execution.segment(begin.segment)
        end = size_of(path)
        while end > begin.offset:
            low = max(begin.offset, end - size)
            text = read_part(path, low, end - low)
            if low > begin.offset:
                # Begin with a whole line, unless the last one is longer than the window.
                cut = text.find(b"\n", 0, len(text) - 1) + 1
                low, text = low + cut, text[cut:]
            at = Position(begin.segment, begin.record, low, begin.sequence)
            yield [(at, self._without_record(at, text))]
            end = low

    def _without_record(self, at: Position, text: bytes) -> LogBatch:
        sequence = self.unindexed if at.sequence is None else at.sequence
        return (sequence, self.execution, UNKNOWN, 0, text)

    def _block_back(
        self, first: Position, lowest: int, records: Records, starts: list[int], size: int
    ) -> Iterator[list[tuple[Position, LogBatch]]]:
        """Yield the windows of one block of the index, down to its record `lowest`."""
        end, path = len(starts), self.execution.segment(first.segment)
        while end > lowest:
            begin = max(lowest, min(end - 1, bisect_right(starts, records.ends[end - 1] - size)))
            text = read_part(path, starts[begin], records.ends[end - 1] - starts[begin])
            found = []
            for number in range(begin, end):
                part = text[starts[number] - starts[begin] : records.ends[number] - starts[begin]]
                at = Position(first.segment, first.record + number, starts[number])
                row = (records.sequence[number], self.execution, records.times[number], records.flags[number], part)
                if part:
                    found.append((at, row))
            yield found
            end = begin

    def _blocks_back(self, segment: int) -> Iterator[tuple[int, Records, int]]:
        """Yield the blocks of an index from its end: number of the first record, records, where their text begins."""
        path = index_path(self.execution.segment(segment))
        end = size_of(path) // RECORD
        while end > 0:
            first = max(0, end - BLOCK)
            begin = _end_before(path, first)
            yield first, decode_records(read_part(path, first * RECORD, (end - first) * RECORD), begin), begin
            end = first


def _end_before(index: str, record: int) -> int:
    """Return the end of the newest undamaged record before another."""
    for number in range(record - 1, -1, -1):
        records = decode_records(read_part(index, number * RECORD, RECORD), 0)
        if any(records.sequence):
            return records.ends[0]
    return 0


def index_path(path: str) -> str:
    """Return the path of the index of a segment; a string, as above."""
    return f"{path.removesuffix('.log')}.idx"


def read_part(path: str, offset: int, size: int) -> bytes:
    """Return nothing of a file that does not exist: the oldest segments of a long log are removed."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(file, size, offset)
    finally:
        os.close(file)


def size_of(path: str) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - see Execution.segment
    except FileNotFoundError:
        return 0


def modified_at(path: str) -> int:
    """Return when a file was modified, in nanoseconds since 1970; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - see Execution.segment
    except FileNotFoundError:
        return 0
