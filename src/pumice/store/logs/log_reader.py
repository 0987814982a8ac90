"""Merges the logs of a run: all pods, containers, restarts and attempts, in the order in which they were printed."""

from __future__ import annotations

import heapq
import os
import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from time import time_ns
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from pumice.model import keys
from pumice.store.logs.log_source import Execution, LogBatch, LogSource, Position

_LOG: Final = re.compile(r"(?P<container>[^.]+)\.(?P<restart>[0-9]+)(?:\.(?P<segment>[0-9]+))?\.log")
_BUFFER: Final = 2 << 20  # bytes of all windows
_SMALLEST_WINDOW: Final = 128 << 10  # any line fits
_NEVER: Final = 1 << 64
_TICK: Final = 10**9  # nanoseconds; of most file systems it is shorter
_number_of: Final = itemgetter(0)


class LogSelection(Struct, frozen=True):
    """Which lines of a run; by default all of them. `tail` counts the lines that would be shown."""

    pods: frozenset[str] = frozenset()  # short names
    tasks: frozenset[str] = frozenset()
    container: str = ""
    attempt: int = 0  # of the job
    previous: bool = False  # of each container the execution before its newest
    since: int = 0  # nanoseconds since 1970
    tail: int | None = None
    grep: re.Pattern[str] | None = None

    def has(self, execution: Execution) -> bool:
        return (
            (not self.pods or execution.pod in self.pods)
            and (not self.tasks or execution.pod.rpartition("-")[0] in self.tasks)
            and self.container in ("", execution.container)
            and self.attempt in (0, execution.attempt)
        )

    def matching(self, text: bytes) -> list[bytes]:
        """Return the lines that `grep` selects, with their ends."""
        lines = text.removesuffix(b"\n").split(b"\n")
        search = None if self.grep is None else self.grep.search
        return [line + b"\n" for line in lines if search is None or search(line.decode("utf-8", "replace"))]


class LogReader(Struct):
    """Reads the logs of one run, in passes: each pass continues where the last one ended."""

    directory: Path  # of the run
    selection: LogSelection = field(default_factory=LogSelection)
    prefix: Callable[[Execution], bytes] = lambda _execution: b""  # of each line
    _sources: dict[str, LogSource] = field(default_factory=dict)  # by the path of the first segment
    _names: dict[str, tuple[int, list[str]]] = field(default_factory=dict)  # by directory, with its time
    _found: list[tuple[str, str, list[str]]] = field(default_factory=list)
    _began: bool = False

    async def follow(self, wait_for_change: Callable[[], Awaitable[bool]]) -> AsyncIterator[list[LogBatch]]:
        """Yield batches until the run ends. `wait_for_change` returns False when no process writes to it any more."""
        live = True
        while live:
            for batches in self.read(live=True):
                yield batches
            live = await wait_for_change()
        for batches in self.read():
            yield batches

    def read(self, *, live: bool = False) -> Iterator[list[LogBatch]]:
        """Yield the batches that are new since the last pass, in order, many at a time.

        One process writes all logs, each batch with the next number. So when the newest number of the known logs has
        been read, all batches up to it can be found, in these logs and in new ones.
        """
        newest = self.newest_sequence() if live else _NEVER
        while self._find_sources() and live:
            newest = self.newest_sequence()
        if not live:
            for rank, source in enumerate(sorted(self._sources.values(), key=lambda each: each.execution.order)):
                source.whole = True
                source.unindexed = rank - len(self._sources)
        if not self._began:
            self._began = True
            if self.selection.since:
                self._skip_before(self.selection.since)
            if self.selection.tail is not None:
                starts = {source: source.end() for source in self._sources.values()}
                starts.update(self._backwards(self.selection.tail, newest))
                for source, at in starts.items():
                    source.at = at
        for batches in _merged(list(self._sources.values()), newest):
            found = batches if self.selection.grep is None else list(self._matching(batches))
            if found:
                yield found

    def _matching(self, batches: Sequence[LogBatch]) -> Iterator[LogBatch]:
        for number, execution, time, flags, text in batches:
            if lines := self.selection.matching(text):
                prefix = self.prefix(execution)
                yield (number, execution, time, flags, prefix + prefix.join(lines))

    def sources(self) -> list[LogSource]:
        """Return the logs of the run, those that are new since the last call too."""
        self._find_sources()
        return list(self._sources.values())

    def newest_sequence(self) -> int:
        """Return the sequence number of the newest batch; 0 if there is none."""
        if not self._sources:
            self._find_sources()
        return max((source.newest_sequence() for source in self._sources.values()), default=0)

    def _skip_before(self, time: int) -> None:
        """Skip all up to the last batch that is older, whichever log it is in."""
        last = 0
        for source in self._sources.values():
            older = source.after_last(lambda number, moment: moment < time or number <= last)  # noqa: B023 - called at once
            last = max(last, older.sequence or 0) if older is not None else last
        for source in self._sources.values():
            modified = source.modified
            if modified is not None and modified < time:
                source.at = source.end()
            elif (at := source.after_last(lambda number, _: number <= last)) is not None:
                source.at = at

    def _backwards(self, tail: int, newest: int) -> Iterator[tuple[LogSource, Position]]:
        """Yield where the last batches begin, the newest first, until there are enough lines."""
        waiting: list[tuple[int, int, LogSource, Any, list[tuple[Position, LogBatch]]]] = []
        for number, source in enumerate(self._sources.values()):
            windows = source.windows_back(_SMALLEST_WINDOW)
            heapq.heappush(waiting, (-source.newest_sequence(), number, source, windows, []))
        while waiting and tail > 0:
            _, number, source, windows, window = waiting[0]
            if not window:
                more = next(windows, None)
                if more is None:
                    heapq.heappop(waiting)
                    continue
                key = -more[-1][1][0] if more else waiting[0][0]
                heapq.heapreplace(waiting, (key, number, source, windows, more))
                continue
            at, batch = window.pop()
            if batch[0] <= newest:
                at, counted = self._last_lines(at, batch[4], tail)
                tail -= counted
            yield source, at
            key = -window[-1][1][0] if window else waiting[0][0]
            heapq.heapreplace(waiting, (key, number, source, windows, window))

    def _last_lines(self, at: Position, text: bytes, most: int) -> tuple[Position, int]:
        """Return where the last lines begin that are shown, and how many they are."""
        count = text.count(b"\n") + (not text.endswith(b"\n"))
        if self.selection.grep is None and count <= most:
            return at, count
        shown, offset = 0, len(text)
        for line in reversed(text.removesuffix(b"\n").split(b"\n")):
            if shown == most:
                break
            offset = max(0, text.rfind(b"\n", 0, offset - 1) + 1) if offset else 0
            shown += len(self.selection.matching(line))
        return Position(at.segment, at.record, at.offset + offset, at.sequence), shown

    def _find_sources(self) -> bool:
        """Add the logs that are new, and the new segments of those that are known. False if there are none."""
        pods = f"{self.directory}/pods"
        found = [
            (pod, number, self._listed(f"{pods}/{pod}/{number}"))
            for pod in self._listed(pods)
            for number in self._listed(f"{pods}/{pod}")
            if number.isdecimal()
        ]
        if found == self._found:
            return False
        self._found = found
        segments: dict[str, list[int]] = {}
        executions: dict[str, Execution] = {}
        for pod, number, names in found:
            directory, attempt = f"{pods}/{pod}/{number}", 0
            for name in filter(None, map(_LOG.fullmatch, names)):
                first = f"{directory}/{name['container']}.{name['restart']}.log"
                segments.setdefault(first, []).append(int(name["segment"] or 0))
                if first in self._sources:
                    executions[first] = self._sources[first].execution
                elif first not in executions:
                    attempt = attempt or _attempt(Path(directory))
                    container, restart = name["container"], int(name["restart"])
                    executions[first] = Execution(pod, int(number), attempt, container, restart, directory)
        chosen = _before_newest(executions) if self.selection.previous else executions
        for first, execution in chosen.items():
            if self.selection.has(execution):
                if first not in self._sources:
                    # `grep` looks at lines without their prefix.
                    prefix = self.prefix(execution) if self.selection.grep is None else b""
                    self._sources[first] = LogSource(execution, [], prefix)
                self._sources[first].segments = sorted(segments[first])
        return True

    def _listed(self, directory: str) -> list[str]:
        """Return the names in a directory, which followers ask for often. It is read again when it has changed."""
        try:
            changed = os.stat(directory).st_mtime_ns  # noqa: PTH116 - a Path would cost more than the call
            known = self._names.get(directory)
            if known is not None and known[0] == changed:
                return known[1]
            names = sorted(os.listdir(directory))  # noqa: PTH208 - as above
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Another file may be added within the same tick of the clock of the file system.
        if time_ns() - changed > _TICK:
            self._names[directory] = (changed, names)
        return names


def _attempt(pod: Path) -> int:
    """Return the attempt that a pod belongs to. If its manifest was lost, the number of the pod is the best guess."""
    try:
        manifest = msgspec.json.decode((pod / "pod.json").read_bytes())
        return int(manifest["metadata"]["annotations"][keys.JOB_RETRY_COUNT]) + 1
    except (OSError, msgspec.DecodeError, LookupError, TypeError, ValueError):
        return int(pod.name)


def _before_newest(executions: Mapping[str, Execution]) -> dict[str, Execution]:
    """Return of each container the execution before its newest."""
    newest: dict[tuple[str, str], list[str]] = {}
    for first, each in sorted(executions.items(), key=lambda item: item[1].order):
        newest.setdefault((each.pod, each.container), []).append(first)
    return {paths[-2]: executions[paths[-2]] for paths in newest.values() if len(paths) > 1}


def _merged(sources: Sequence[LogSource], newest: int) -> Iterator[list[LogBatch]]:
    """Merge windows of the sources: what is not above the end of any window is in order.

    Sources that begin later are not read before their turn.
    """
    pending = [(number, index) for index, each in enumerate(sources) if (number := each.next_sequence()) is not None]
    pending.sort(reverse=True)
    size = max(_SMALLEST_WINDOW, _BUFFER // (len(sources) or 1))
    windows: dict[LogSource, list[LogBatch]] = {}
    while True:
        for source in [source for source, window in windows.items() if not window]:
            windows[source] = source.window(size)
            if not windows[source]:
                del windows[source]
        limit = min((window[-1][0] for window in windows.values()), default=_NEVER)
        while pending and pending[-1][0] <= limit:
            source = sources[pending.pop()[1]]
            if window := source.window(size):
                windows[source] = window
                limit = min(limit, window[-1][0])
        due: list[LogBatch] = []
        for source, window in windows.items():
            count = bisect_right(window, min(limit, newest), key=_number_of)
            due += window[:count]
            windows[source] = window[count:]
        if not due:
            break
        due.sort(key=_number_of)
        yield due
    for source, window in windows.items():
        source.held = window
