"""The merged logs of a run: windows by line number, search over all stored lines, and the volume over time."""

from __future__ import annotations

import datetime as dt
import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.client.history_values import moment_of
from pumice.runtime.recently_used import RecentlyUsed
from pumice.store.history.event_log import Mark
from pumice.store.logs.log_index import GAP
from pumice.store.logs.log_source import stream_of
from pumice.store.logs.numbered_log import ERROR, NumberedLog
from pumice.ui.detail_values import LogFilter, LogLine, LogWindow, SearchResult, Volume, VolumeBucket

PUMICE: Final = "pumice"  # the task of what Pumice says itself
DEFAULT_LINES: Final = 200
_MOST_LINES: Final = 2000
_MOST_POSITIONS: Final = 10_000
_LONGEST: Final = 1000  # bytes of a line that are shown, unless the whole line is asked for
_MOST_ERRORS: Final = 200  # that are sent with a share of the lines
_BUCKETS: Final = 200
_SCANNED: Final = 64 << 20  # bytes that one request searches for errors
_MOST_VIEWS: Final = 8
_RANK: Final = re.compile(r"^(?:\[rank\d+\]:|rank \d+:)\s*")


@dataclass(slots=True)
class _View:
    """The rows of a selection. `before[i]` is the number of lines before row `rows[i]`; the last is the total."""

    chosen: LogFilter
    rows: array[int] = field(default_factory=lambda: array("I"))
    before: array[int] = field(default_factory=lambda: array("Q", [0]))
    seen: int = 0  # rows of the index that were looked at

    @property
    def total(self) -> int:
        return self.before[-1]

    def update(self, index: NumberedLog) -> None:
        pod, task, attempt, stream = self.chosen.pod, self.chosen.task, self.chosen.attempt, self.chosen.stream
        files = [
            pod in ("", each.pod) and task in ("", each.pod.rpartition("-")[0]) and attempt in (0, each.attempt)
            for each in (part.execution for part in index.parts)
        ]
        for row in range(self.seen, len(index.seqs)):
            number, flags = index.part[row], index.flags[row]
            if number >= 0:
                wanted = files[number] and (stream in ("", stream_of(index.times[row], flags)) or bool(flags & GAP))
            else:
                mark = index.marks[index.begin[row]]
                of_this = not stream and task in ("", PUMICE) and attempt in (0, mark.attempt)
                wanted = of_this and pod in ("", mark.pod)
            if wanted:
                self.rows.append(row)
                self.before.append(self.before[-1] + index.lines[row])
        self.seen = len(index.seqs)

    def number(self, row: int, line: int) -> int | None:
        """Return the number of a line of a row; None if the selection does not have the row."""
        position = bisect_right(self.rows, row) - 1
        if position < 0 or self.rows[position] != row:
            return None
        return self.before[position] + line


@dataclass(slots=True)
class RunLog:
    """The log of one run with the selections that were asked for last."""

    index: NumberedLog
    views: RecentlyUsed[LogFilter, _View] = field(default_factory=lambda: RecentlyUsed(_MOST_VIEWS))
    # What was searched for last, up to which line, and the numbers of the lines with it.
    _found: tuple[LogFilter, str, int, list[int]] | None = None

    def view(self, chosen: LogFilter) -> _View:
        view = self.views.keep(chosen, self.views.get(chosen) or _View(chosen))
        view.update(self.index)
        return view

    def window(self, chosen: LogFilter, at: int | None, lines: int | None, *, whole: bool = False) -> LogWindow:
        """Return lines from a number on; without it the last ones. `whole`: long lines are not cut."""
        view, count = self.view(chosen), min(lines or DEFAULT_LINES, _MOST_LINES)
        begin = max(0, view.total - count) if at is None else min(at, view.total)
        self.index.scan_errors(_SCANNED)
        others: dict[int, int] = {}
        for each in self.index.parts:
            attempt = each.execution.attempt
            if chosen.attempt not in (0, attempt):
                others[attempt] = others.get(attempt, 0) + sum(self.index.lines[row] for row in each.rows)
        first = next((self.index.times[row] for row in view.rows if self.index.times[row]), 0)
        return LogWindow(
            filter=chosen,
            total=view.total,
            errors=sum(self.index.errors[row] for row in view.rows),
            at=begin,
            items=tuple(self._lines(view, begin, count, whole=whole)),
            begin=_moment(first),
            live=self.index.live,
            truncated=self.index.storage.truncated,
            others=others,
        )

    def matching(self, chosen: LogFilter, q: str, at: int | None, lines: int | None) -> LogWindow:
        """Return lines with a text only. `at` and the total count these lines; each keeps its own number."""
        numbers, view = self._numbers(chosen, q), self.view(chosen)
        count = min(lines or DEFAULT_LINES, _MOST_LINES)
        begin = max(0, len(numbers) - count) if at is None else min(at, len(numbers))
        items = tuple(line for number in numbers[begin : begin + count] for line in self._lines(view, number, 1))
        every = self.window(chosen, view.total, 1)
        return msgspec.structs.replace(every, total=len(numbers), at=begin, items=items, lines=every.total)

    def share(self, chosen: LogFilter, begin: int, most: int) -> LogWindow:
        """Return about `most` of the lines from a number on, evenly, and the lines with an error among the others."""
        view = self.view(chosen)
        step = max(1, -(-(view.total - begin) // most))
        every = self.window(chosen, view.total, 1)
        errors: list[int] = []
        for position in range(max(0, bisect_right(view.before, begin) - 1), len(view.rows)):
            row = view.rows[position]
            if self.index.errors[row]:
                lines = enumerate(self.index.text(row), view.before[position])
                errors += [number for number, text in lines if number >= begin and ERROR.match(text)]
        numbers = set(range(begin, view.total, step)) | set(errors[:_MOST_ERRORS])
        items = tuple(line for number in sorted(numbers) for line in self._lines(view, number, 1))
        return msgspec.structs.replace(every, at=begin, items=items, share=step)

    def _lines(self, view: _View, begin: int, count: int, *, whole: bool = False) -> list[LogLine]:
        index, found = self.index, list[LogLine]()
        position = max(0, bisect_right(view.before, begin) - 1)
        while position < len(view.rows) and len(found) < count:
            row, number = view.rows[position], view.before[position]
            mark = index.mark(row)
            texts = index.text(row)
            for offset in range(max(0, begin - number), len(texts)):
                if len(found) == count:
                    break
                found.append(_line(index, row, mark, (number + offset, texts[offset]), whole=whole))
            position += 1
        return found

    def search(self, chosen: LogFilter, q: str, after: int = 0) -> SearchResult:
        """Return the lines with a text, whatever its case: how many there are, and where, from a number on."""
        view = self.view(chosen)
        if not q:
            return SearchResult(q=q, total=0, lines=view.total, message="there is nothing to search for")
        numbers = self._numbers(chosen, q)
        shown = numbers[bisect_right(numbers, after - 1) :]
        more = shown[_MOST_POSITIONS] if len(shown) > _MOST_POSITIONS else None
        positions = tuple(shown[:_MOST_POSITIONS])
        return SearchResult(q=q, total=len(numbers), positions=positions, after=more, lines=view.total)

    def _numbers(self, chosen: LogFilter, q: str) -> list[int]:
        """Return the numbers of the lines with a text, whatever its case."""
        view = self.view(chosen)
        if self._found is not None and self._found[:3] == (chosen, q, view.total):
            return self._found[3]
        pattern = _pattern(q)
        every = (found for number in range(len(self.index.parts)) for found in self.index.matches(pattern, number))
        numbers = [number for row, line in every if (number := view.number(row, line)) is not None]
        marks = (row for row in view.rows if self.index.mark(row) is not None)
        numbers += [view.number(row, 0) or 0 for row in marks if pattern.search(self.index.text(row)[0])]
        numbers.sort()
        self._found = (chosen, q, view.total, numbers)
        return numbers

    def volume(self, chosen: LogFilter) -> Volume:
        view, index = self.view(chosen), self.index
        complete = index.scan_errors(_SCANNED)
        timed = [(position, row) for position, row in enumerate(view.rows) if index.times[row]]
        if not timed:
            return Volume(begin=None, end=None, total=view.total, errors=0)
        begin = min(index.times[row] for _, row in timed)
        end = max(index.times[row] for _, row in timed)
        width = max(1, (end - begin) // _BUCKETS + 1)
        lines, errors, first = [0] * _BUCKETS, [0] * _BUCKETS, [-1] * _BUCKETS
        for position, row in timed:
            bucket = (index.times[row] - begin) // width
            lines[bucket] += index.lines[row]
            errors[bucket] += index.errors[row]
            first[bucket] = view.before[position] if first[bucket] < 0 else first[bucket]
        following = view.total
        for bucket in range(_BUCKETS - 1, -1, -1):
            following = first[bucket] = first[bucket] if first[bucket] >= 0 else following
        return Volume(
            begin=_moment(begin),
            end=_moment(end),
            total=view.total,
            errors=sum(errors),
            buckets=tuple(
                VolumeBucket(time=moment_of(begin + at * width), first=first[at], lines=lines[at], errors=errors[at])
                for at in range(_BUCKETS)
            ),
            complete=complete,
        )

    def find(self, chosen: LogFilter, pod: str, attempt: int, text: str) -> int | None:
        """Return the number of the last line of a pod that has a text; without it, of its last line."""
        view, index = self.view(chosen), self.index
        wanted = _RANK.sub("", text).strip()
        best: tuple[int, int] | None = None
        for number, each in enumerate(index.parts):
            if each.execution.pod != pod or each.execution.attempt != attempt or not each.rows:
                continue
            last = (each.rows[-1], index.lines[each.rows[-1]] - 1)
            found = list(index.matches(re.compile(re.escape(wanted.encode())), number)) if wanted else []
            best = max(filter(None, (best, found[-1] if found else last)))
        return None if best is None else view.number(*best)

    def last_times(self) -> dict[str, dt.datetime]:
        """Return when each pod printed its last line, as far as the log was read. Any thread may call it."""
        found: dict[str, int] = {}
        for each in list(self.index.parts):
            if each.rows:
                found[each.execution.pod] = max(self.index.times[each.rows[-1]], found.get(each.execution.pod, 0))
        return {pod: moment_of(moment) for pod, moment in found.items() if moment}

    def first_error(self, chosen: LogFilter) -> int | None:
        """Return the number of the first line that looks like an error."""
        view, index = self.view(chosen), self.index
        index.scan_errors(_SCANNED)
        row = next((row for row in view.rows if index.errors[row]), None)
        if row is None:
            return None
        line = next((line for line, text in enumerate(index.text(row)) if ERROR.match(text)), 0)
        return view.number(row, line)


def _pattern(q: str) -> re.Pattern[bytes]:
    """Return a pattern for a text in UTF-8, whatever its case: patterns of bytes know only that of ASCII."""
    if q.isascii():
        return re.compile(re.escape(q.encode()), re.IGNORECASE)
    parts = []
    for letter in q:
        forms = sorted({letter, letter.lower(), letter.upper()})
        encoded = [re.escape(form.encode("utf-8", "surrogatepass")) for form in forms]
        parts.append(encoded[0] if len(encoded) == 1 else b"(?:" + b"|".join(encoded) + b")")
    return re.compile(b"".join(parts))


def _line(
    log: NumberedLog, row: int, mark: Mark | None, numbered: tuple[int, bytes], *, whole: bool = False
) -> LogLine:
    number, content = numbered
    time = log.times[row]
    moment = _moment(time)
    if mark is not None:
        return LogLine(
            number=number, seq=mark.seq, time=moment, task=PUMICE, text=mark.text, attempt=mark.attempt, kind=mark.kind
        )
    execution = log.execution(row)
    redraws = 0
    if b"\r" in content and not whole:
        # What a terminal shows of a line in the end, and how many parts before it a carriage return replaced.
        *replaced, content = [part for part in content.split(b"\r") if part] or [b""]
        redraws = len(replaced)
    cut = len(content) > _LONGEST and not whole
    # Half of a character at the cut is left out.
    text = content[:_LONGEST].decode("utf-8", "ignore") if cut else content.decode("utf-8", "replace")
    return LogLine(
        number=number,
        seq=log.seqs[row],
        time=moment,
        pod=execution.pod,
        task=execution.pod.rpartition("-")[0],
        container=execution.container,
        stream=log.stream(row),
        text=text,
        attempt=execution.attempt,
        restart=execution.restart,
        error=ERROR.match(content) is not None,
        cut=len(content) if cut else None,
        redraws=redraws,
        kind="gap" if log.flags[row] & GAP else "line",
    )


def _moment(nanoseconds: int) -> dt.datetime | None:
    return moment_of(nanoseconds) if nanoseconds else None
