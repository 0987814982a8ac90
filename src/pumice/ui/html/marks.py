"""The marks of phases and pods, icons of buttons, and the colours of tasks.

Each mark is drawn once, as a symbol, and used by its name. A mark never stands alone: a word or a label says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pumice.ui.html.text import Child, Html, join, plural, tag
from pumice.ui.values import FAILED_STATES, PodState, TaskPods

MARKS_TO: Final = 16  # pods of a task with a mark each
TICKS_TO: Final = 64  # pods of a task with a tick each
COLOURS: Final = 5
SHAPES: Final = ("", "m1", "m2", "m3")  # of the chips of tasks that share a colour
PUMICE_COLOUR: Final = "t6"  # of lines that Pumice wrote

_RING: Final = Html('<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6"/>')
_DASHED: Final = Html(_RING.replace("/>", ' stroke-dasharray="2.6 2.27"/>'))
_SMALL_RING: Final = '<circle cx="5" cy="5" r="3.6" fill="none" stroke="currentColor" stroke-width="1.3"/>'
_DISC: Final = Html('<circle cx="8" cy="8" r="7" fill="currentColor"/>')


def _stroke(path: str, colour: str = "currentColor", width: str = "1.8") -> Html:
    ends = 'stroke-linecap="round" stroke-linejoin="round"'
    return Html(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" {ends}/>')


_CHECK, _CROSS, _BARS = "M4.9 8.4l2.1 2.1 4.2-4.7", "M5.5 5.5l5 5M10.5 5.5l-5 5", "M6.2 5.4v5.2M9.8 5.4v5.2"
_CUT: Final = "var(--cut)"
_SQUARE: Final = '<rect x="5.3" y="5.3" width="5.4" height="5.4" rx="1" fill="{}"/>'

PHASES: Final[Mapping[str, Html]] = {
    "pending": _DASHED,
    "running": Html(_RING + '<circle cx="8" cy="8" r="3.1" fill="currentColor"/>'),
    "restarting": Html(_stroke("M13.3 8.2a5.3 5.3 0 1 1-1.5-4") + _stroke("M12.4 1.4l.1 3.2-3.2.1")),
    "completing": Html(_DASHED + _stroke(_CHECK)),
    "completed": Html(_DISC + _stroke(_CHECK, _CUT)),
    "failed": Html('<path d="M5 .9h6L15.1 5v6L11 15.1H5L.9 11V5z" fill="currentColor"/>' + _stroke(_CROSS, _CUT)),
    "aborting": Html(_DASHED + _stroke(_BARS)),
    "aborted": Html(_DISC + _stroke(_BARS, _CUT)),
    "terminating": Html(_DASHED + _SQUARE.format("currentColor")),
    "terminated": Html(_DISC + _SQUARE.format(_CUT)),
}
PODS: Final[Mapping[str, str]] = {
    "run": '<circle cx="5" cy="5" r="4.2" fill="currentColor"/>',
    "wait": _SMALL_RING.replace("/>", ' stroke-dasharray="1.7 1.07"/>'),
    "start": f'{_SMALL_RING}<path d="M5 1.4a3.6 3.6 0 0 1 0 7.2z" fill="currentColor"/>',
    "ok": _stroke("M1.3 5.4l2.5 2.6 5-5.8", width="1.9"),
    "fail": '<path d="M3 .3h4L9.7 3v4L7 9.7H3L.3 7V3z" fill="currentColor"/>'
    + _stroke("M3.4 3.4l3.2 3.2M6.6 3.4L3.4 6.6", _CUT, "1.4"),
    "follow": _stroke("M2.2 2.2l5.6 5.6M7.8 2.2L2.2 7.8", width="1.5"),
    "stop": '<rect x="1.6" y="1.6" width="6.8" height="6.8" rx="1" fill="none" stroke="currentColor" '
    'stroke-width="1.4"/>',
}
ICONS: Final[Mapping[str, str]] = {
    "search": '<circle cx="7" cy="7" r="4.5" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    + _stroke("M10.5 10.5L14 14", width="1.5"),
    "theme": '<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor"/>',
    "help": _stroke("M5.8 6a2.3 2.3 0 1 1 3.3 2.1c-.8.4-1.1.8-1.1 1.6M8 12.3v.1", width="1.5"),
    "suspend": _stroke("M5.5 3.5v9M10.5 3.5v9", width="1.5"),
    "resume": '<path d="M4.5 3l8 5-8 5z" fill="currentColor"/>',
    "restart": _stroke("M13 8.2A5 5 0 1 1 11.6 4.5M11.8 1.7v3h-3", width="1.5"),
    "stop": '<rect x="4" y="4" width="8" height="8" rx="1.2" fill="currentColor"/>',
    "delete": _stroke("M3 4.5h10M6.2 4.5V3h3.6v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5", width="1.5"),
    "max": _stroke("M9.5 2.5h4v4M6.5 13.5h-4v-4M13.5 2.5l-5 5M2.5 13.5l5-5", width="1.5"),
    "download": _stroke("M8 2.5v8M4.8 7.5L8 10.7l3.2-3.2M3 13.5h10", width="1.5"),
}
LOGO: Final = Html(
    '<svg class="logo" viewBox="0 0 24 24" aria-hidden="true"><path class="stone" d="M4.1 11.7c-.5-3.2 1.7-6.5 5.2-7.6 '
    '3.6-1.1 7.9.1 9.8 2.9 1.6 2.5 1.2 5.4-1 6.9-2 1.3-4.5 1.1-7.1 1.2-3 .2-6.3-.1-6.9-3.4z"/><g class="pores">'
    '<circle cx="8.7" cy="9.3" r="1.6"/><circle cx="13" cy="7.3" r="1.1"/><circle cx="15.2" cy="10.8" r="1.7"/>'
    '<circle cx="11.1" cy="12.4" r=".9"/></g><path class="water" '
    'd="M2 18.4c1.7-1.3 3.3-1.3 5 0s3.3 1.3 5 0 3.3-1.3 5 0 3.3 1.3 5 0"/></svg>'
)

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
OUTCOMES: Final[Mapping[str, tuple[str, str]]] = {
    "running": ("run", "c-run"),
    "failed": ("fail", "c-fail"),
    "completed": ("ok", "c-ok"),
    "stopped": ("stop", "c-stop"),
    "waiting": ("wait", "c-wait"),
}
TICK: Final = {"run": "r", "ok": "s", "fail": "f", "follow": "f", "start": "r", "wait": "w", "stop": "w"}


def sprite() -> Html:
    """Return the symbols, once in a page."""
    symbols = [
        Html(f'<symbol id="{prefix}-{name}" viewBox="0 0 {size} {size}">{body}</symbol>')
        for prefix, size, drawings in (("g", 16, PHASES), ("p", 10, PODS), ("i", 16, ICONS))
        for name, body in drawings.items()
    ]
    pattern = tag(
        "pattern",
        tag("path.hx", d="M0 0V6"),
        id="hatch",
        width=6,
        height=6,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return tag("svg", tag("defs", pattern), symbols, width=0, height=0, aria_hidden="true", class_="sprite")


def icon(name: str, size: str = "g") -> Html:
    """Return a symbol of 16 (`g`) or 10 (`p`) pixels."""
    return tag("svg", tag("use", href=f"#{name}"), class_=size, aria_hidden="true")


def phase(name: str) -> Html:
    """Return the mark and the word of a phase."""
    known = name.lower() if name.lower() in PHASES else "pending"
    return tag(f"span.ph.ph-{known}", icon(f"g-{known}"), name)


def pod_mark(state: PodState) -> Html:
    """Return the mark of a pod; a word must stand beside it."""
    mark, colour, _ = STATES[state]
    return tag("svg", tag("use", href=f"#p-{mark}"), class_=f"p {colour}", aria_hidden="true")


def outcome_mark(outcome: str) -> Html:
    """Return the mark of an attempt's outcome."""
    mark, colour = OUTCOMES.get(outcome, OUTCOMES["waiting"])
    return tag("svg", tag("use", href=f"#p-{mark}"), class_=f"p {colour}", aria_hidden="true")


def task_colour(index: int) -> str:
    """Return the classes of a task, by its position in the job: a colour; from the sixth task on also a shape."""
    shape = SHAPES[index // COLOURS % len(SHAPES)]
    return f"t{index % COLOURS + 1} {shape}".rstrip()


def colours(tasks: Iterable[TaskPods]) -> dict[str, str]:
    """Return the classes of the colours of tasks, by name."""
    return {task.name: task_colour(index) for index, task in enumerate(tasks)}


def count_words(counts: Mapping[PodState, int]) -> str:
    """Return `1 failed first, 6 followed`, failures first."""
    return ", ".join(f"{counts[state]:,} {word}" for state, (_, _, word) in STATES.items() if counts.get(state))


def task_pods(tasks: Iterable[TaskPods]) -> Html:
    """Draw pods by task: a mark each, ticks, or one bar in which a failed part is never invisible."""
    every = tuple(tasks)
    label = "; ".join(f"{task.name}: {count_words(task.counts) or plural(task.total, 'pod')}" for task in every)
    return tag("div.pods", [_task(task) for task in every], role="img", aria_label=label)


def _task(task: TaskPods) -> Html:
    drawn: Child
    if task.total <= MARKS_TO and task.states:
        drawn = tag("span.dots", [pod_mark(state) for state in task.states])
    elif task.total <= TICKS_TO and task.states:
        ticks = [tag("i", class_=TICK[STATES[state][0]]) for state in task.states]
        drawn = join(tag("span.ticks", ticks), tag("b", f"{task.total:,}"))
    else:
        drawn = join(pod_bar(task.counts, task.total), tag("b", f"{task.total:,}"))
    return tag("span.task", tag("b", task.name), drawn)


def pod_bar(counts: Mapping[PodState, int], total: int) -> Html:
    """Draw one bar of 150 pixels with a part for each state; a part has at least 4 of them."""
    width, least = 150, 4
    parts = [
        ("s", counts.get(PodState.DONE, 0)),
        ("r", sum(counts.get(state, 0) for state in (PodState.RUNNING, PodState.INIT, PodState.RESTARTING))),
        ("w", counts.get(PodState.WAITING, 0) + counts.get(PodState.STOPPED, 0)),
        ("f", sum(counts.get(state, 0) for state in FAILED_STATES)),
    ]
    shown = [(kind, max(least, width * count / max(1, total))) for kind, count in parts if count]
    scale = width / sum(size for _, size in shown) if shown else 1.0
    rects: list[Html] = []
    left = 0.0
    for kind, size in shown:
        wide = max(least, size * scale)
        rects.append(tag(f"rect.{kind}", x=round(left, 1), y=0.5, width=round(wide - 1, 1), height=10, rx=1))
        left += wide
    return tag("svg.pbar", rects, viewBox=f"0 0 {max(width, left):.0f} 11", preserveAspectRatio="none")
