"""Numbers, times and sizes as words of the page, and the queries of its links.

And which mark, colour and word stands for an outcome, a pod's state and a task. A mark never stands alone;
`templates/sprite.html` draws them.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Protocol
from urllib.parse import urlencode

from pumice.diagnosis.outcome import Outcome
from pumice.ui.detail_values import PodRow
from pumice.ui.values import FAILED_STATES, PodState, TaskPods

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400
KIB: Final = 1024


def number(value: float, digits: int = 0) -> str:
    """Return `1,311` or `11.8`."""
    return f"{value:,.{digits}f}"


def plural(count: int, word: str, many: str = "") -> str:
    """Return `1 pod`, `8 pods`."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def duration(seconds: float) -> str:
    """Return `5.5 s`, `13 m 53 s`, `2 h 11 m`, `3 d 4 h`; cut off as in a terminal, not rounded."""
    if seconds < MINUTE:
        return f"{min(max(0.0, seconds), 59.9):.1f} s"
    whole = int(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} m {whole % MINUTE:02} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} m"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def brief(seconds: float) -> str:
    """Return the largest unit of a duration: `31 m`."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} m"
    return f"{whole // HOUR} h" if whole < DAY else f"{whole // DAY} d"


def offset(seconds: float) -> str:
    """Return the time of a line from the start: `0.3`, `4:12.4`, `2:09:17`."""
    if seconds < MINUTE - 0.05:
        return f"{max(0.0, seconds):.1f}"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)}:{seconds % MINUTE:04.1f}"
    whole = int(seconds)
    return f"{whole // HOUR}:{whole % HOUR // MINUTE:02}:{whole % MINUTE:02}"


def ago(then: dt.datetime, now: dt.datetime) -> str:
    """Return `12 s ago`, `34 min ago`, `2 h ago`, `yesterday`, `5 days ago`."""
    seconds = max(0, int((now - then).total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s ago"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min ago"
    if seconds < DAY:
        return f"{seconds // HOUR} h ago"
    return "yesterday" if seconds < 2 * DAY else f"{seconds // DAY} days ago"


def seconds_before(moment: dt.datetime, seconds: float) -> dt.datetime:
    return moment - dt.timedelta(seconds=seconds)


def clock(moment: dt.datetime) -> str:
    """Return the local time of day."""
    return f"{moment.astimezone():%H:%M:%S}"


def cores(amount: float) -> str:
    """Return a number of CPUs: `43`, `0.5`."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:.1f}"


def file_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def query(**fields: object) -> str:
    """Return the query of a link, without the fields that are empty: `?tab=events&attempt=2`."""
    return "?" + urlencode({name: value for name, value in fields.items() if value not in {None, ""}})


# --- marks ------------------------------------------------------------------------------------------------------------

MARKS_TO: Final = 16  # pods of a task with a mark each
TICKS_TO: Final = 64  # pods of a task with a tick each
COLOURS: Final = 5
SHAPES: Final = ("", "m1", "m2", "m3")  # of the chips of tasks that share a colour
BAR: Final = 150  # the width of a bar of pods
LEAST: Final = 4  # of it: the width of a part that has any pod

OUTCOME_MARKS: Final[Mapping[Outcome, str]] = {
    Outcome.HELD: "aborted",
    Outcome.WAITING: "pending",
    Outcome.STARTING: "pending",
    Outcome.RUNNING: "running",
    Outcome.RESTARTING: "restarting",
    Outcome.STOPPING: "terminating",
    Outcome.SUSPENDED: "aborted",
    Outcome.SUCCEEDED: "completed",
    Outcome.FAILED: "failed",
    Outcome.STOPPED: "terminated",
}
# The mark, the class of its colour and the word of a pod's state, in the order in which counts are written
STATES: Final[Mapping[PodState, tuple[str, str, str]]] = {
    PodState.FIRST: ("fail", "c-fail", "failed first"),
    PodState.FAILED: ("fail", "c-fail", "failed"),
    PodState.FOLLOWED: ("follow", "c-fail", "followed"),
    PodState.RESTARTING: ("start", "c-warn", "restarting"),
    PodState.RUNNING: ("run", "c-run", "running"),
    PodState.INIT: ("start", "c-run", "init"),
    PodState.DONE: ("ok", "c-ok", "succeeded"),
    PodState.STOPPED: ("stop", "c-stop", "stopped"),
    PodState.WAITING: ("wait", "c-wait", "waiting"),
}
# The mark of an attempt, and the class of its colour
ATTEMPT_MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "running": ("run", "c-run"),
    "failed": ("fail", "c-fail"),
    "completed": ("ok", "c-ok"),
    "stopped": ("stop", "c-stop"),
    "waiting": ("wait", "c-wait"),
}
TICKS: Final = {"run": "r", "ok": "s", "fail": "f", "follow": "f", "start": "r", "wait": "w", "stop": "w"}
_CELLS: Final = {PodState.DONE: "done", PodState.STOPPED: "stopped", PodState.WAITING: "waiting"} | dict.fromkeys(
    FAILED_STATES, "failed"
)
CELL_GROUPS: Final = ("running", "done", "waiting", "failed", "stopped")


class Named(Protocol):
    """A task of a Job, or its pods."""

    @property
    def name(self) -> str: ...


def colours(tasks: Iterable[Named]) -> dict[str, str]:
    """Return the classes of tasks by name: a colour; from the sixth task on also a shape."""
    return {
        task.name: f"t{index % COLOURS + 1} {SHAPES[index // COLOURS % len(SHAPES)]}".rstrip()
        for index, task in enumerate(tasks)
    }


def sum_counts(counts: Iterable[Mapping[PodState, int]]) -> dict[PodState, int]:
    """Return how many pods of all tasks are in each state."""
    found = Counter[PodState]()
    for each in counts:
        found.update(each)
    return found


def _count_words(counts: Mapping[PodState, int]) -> str:
    """Return `1 failed first, 6 followed`, failures first."""
    return ", ".join(f"{counts[state]:,} {word}" for state, (_, _, word) in STATES.items() if counts.get(state))


def state_words(rows: Iterable[PodRow]) -> str:
    return _count_words(Counter(row.state for row in rows))


def tasks_words(tasks: Iterable[TaskPods]) -> str:
    """Return `master: 1 running; worker: 2 running`."""
    return "; ".join(f"{task.name}: {_count_words(task.counts) or plural(task.total, 'pod')}" for task in tasks)


def failed_count(counts: Mapping[PodState, int]) -> int:
    return sum(counts.get(state, 0) for state in FAILED_STATES)


def running_count(counts: Mapping[PodState, int]) -> int:
    return counts.get(PodState.RUNNING, 0) + counts.get(PodState.INIT, 0)


def cell_counts(counts: Mapping[PodState, int]) -> dict[str, int]:
    """Return how many pods have each colour of the cells."""
    groups = dict.fromkeys(CELL_GROUPS, 0)
    for state, count in counts.items():
        groups[_CELLS.get(state, "running")] += count
    return groups


def bar_parts(counts: Mapping[PodState, int], total: int) -> tuple[float, list[tuple[str, float, float]]]:
    """Return the width of a bar, and the kind, position and width of its parts. A failed part is never invisible."""
    groups = cell_counts(counts)
    amounts = (
        ("s", groups["done"]),
        ("r", groups["running"]),
        ("w", groups["waiting"] + groups["stopped"]),
        ("f", groups["failed"]),
    )
    shown = [(kind, max(LEAST, BAR * count / max(1, total))) for kind, count in amounts if count]
    scale = BAR / sum(size for _, size in shown) if shown else 1.0
    parts = []
    left = 0.0
    for kind, size in shown:
        wide = max(LEAST, size * scale)
        parts.append((kind, round(left, 1), round(wide - 1, 1)))
        left += wide
    return max(BAR, left), parts
