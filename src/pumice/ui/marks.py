"""Which mark, colour and word stands for an outcome, a pod's state and a task. A mark never stands alone.

`templates/sprite.html` draws the marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from pumice.diagnosis.outcome import Outcome
from pumice.ui.values import FAILED_STATES, PodState, TaskPods
from pumice.ui.words import plural

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


def count_words(counts: Mapping[PodState, int]) -> str:
    """Return `1 failed first, 6 followed`, failures first."""
    return ", ".join(f"{counts[state]:,} {word}" for state, (_, _, word) in STATES.items() if counts.get(state))


def tasks_words(tasks: Iterable[TaskPods]) -> str:
    """Return `master: 1 running; worker: 2 running`."""
    return "; ".join(f"{task.name}: {count_words(task.counts) or plural(task.total, 'pod')}" for task in tasks)


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
