"""The timeline of a job in numbers: phases, attempts, the life of each pod, and a close-up of the first failure.

Positions are in percent of the width, on a time axis with the wait before the first pod folded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pumice.ui.detail_values import FailureMark, Lifeline, PodRow, Segment, StateCounts, Timeline
from pumice.ui.values import Job, PodState
from pumice.ui.words import DAY, HOUR, MINUTE, clock, duration

FOLD: Final = 6.0  # percent of the picture for a wait that would take more
FOLD_FROM: Final = 0.02  # of the run: a shorter wait is not drawn
STEPS: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30),
    *(count * MINUTE for count in (1, 2, 5, 10, 20, 30)),
    *(count * HOUR for count in (1, 2, 4, 8, 12)),
    *(count * DAY for count in (1, 2, 5, 10)),
)
TICKS: Final = 7
BEFORE: Final = 0.5  # seconds of the close-up before the first failure
CLOSE_UP: Final = 2.5  # seconds of the close-up
FAILED_AT: Final = 100 * BEFORE / CLOSE_UP  # where in the close-up the first failure is
SLIVER: Final = 1.2  # percent: the last phase has at least half of it
WORD: Final = 6.0  # percent: a phase that is narrower has no word, but a hint
MANY_SEGMENTS: Final = 4
LATE: Final = 66  # percent of the close-up from which words stand on the left of a mark
AREA: Final = 110  # the height of the counts over time
LABEL_FROM: Final = 0.12  # of all pods: a smaller surface has no name
# The mark at the end of a life: its symbol, its colour, its size
END_MARKS: Final = {
    PodState.FIRST: ("g-failed", "c-fail", 14),
    PodState.FAILED: ("g-failed", "c-fail", 14),
    PodState.FOLLOWED: ("p-follow", "c-fail", 10),
    PodState.RESTARTING: ("g-restarting", "c-warn", 13),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """From `begin` at `left` percent to `end` at 100; what is earlier is folded into the part on the left."""

    created: dt.datetime
    begin: dt.datetime
    end: dt.datetime
    left: float

    @classmethod
    def of(cls, timeline: Timeline) -> Scale:
        """Return the scale of a run; the wait is folded if it is worth a picture."""
        begin, end = timeline.begin, max(timeline.end, timeline.begin + dt.timedelta(seconds=0.1))
        wait = (begin - timeline.created).total_seconds()
        folded = wait > max(1.0, FOLD_FROM * (end - begin).total_seconds())
        return cls(timeline.created, begin, end, FOLD if folded else 0.0)

    @property
    def seconds(self) -> float:
        """Return how long the picture is."""
        return (self.end - self.begin).total_seconds()

    def at(self, moment: dt.datetime) -> float:
        """Return the position of a moment, within 0 and 100."""
        if moment <= self.begin:
            wait = (self.begin - self.created).total_seconds()
            share = (moment - self.created).total_seconds() / wait if wait > 0 else 0.0
            return round(self.left * 0.95 * max(0.0, share) if moment < self.begin else self.left, 3)
        part = (moment - self.begin).total_seconds() / self.seconds
        return round(self.left + min(1.0, part) * (100 - self.left), 3)

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and words of the axis, from 0: `2 m`, `0 h 30`."""
        step = next((step for step in STEPS if self.seconds / step <= TICKS), STEPS[-1])
        count = int(self.seconds / step)
        return [
            (self.left + (100 - self.left) * index * step / self.seconds, _tick_words(index * step))
            for index in range(count + 1)
        ]


def _tick_words(seconds: float) -> str:
    """Return a round time from the start."""
    if seconds == 0:
        return "0"
    if seconds < MINUTE:
        return f"{seconds:g} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} m" if whole % MINUTE == 0 else f"{whole // MINUTE}:{whole % MINUTE:02}"
    if whole < 2 * DAY:
        return f"{whole // HOUR} h" if whole % HOUR == 0 else f"{whole // HOUR} h {whole % HOUR // MINUTE}"
    return f"{whole // DAY} d"


class Bar(NamedTuple):
    """A part of a row between two positions. `mark` is at its end; `word` stands in it."""

    kind: str
    left: float
    right: float
    height: int = 10
    tip: str = ""
    mark: tuple[str, str, int] | None = None
    word: str = ""

    @property
    def x(self) -> str:
        return percent(self.left)

    @property
    def width(self) -> str:
        return percent(max(0.15, self.right - self.left))


@dataclass(frozen=True, slots=True)
class Picture:
    """What all rows share."""

    job: Job
    timeline: Timeline
    scale: Scale
    first: FailureMark | None = None  # around which the close-up is
    sparks: dict[str, PodRow] | None = None

    @property
    def zoom(self) -> str:
        """Return what the column on the right shows: failure, spark or nothing."""
        if self.first is not None:
            return "failure"
        measured = any(any(row.cpu_points) for row in (self.sparks or {}).values())
        return "spark" if self.timeline.live and measured else ""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing stands out."""
        odd = {PodState.FIRST, PodState.FAILED, PodState.RESTARTING, PodState.WAITING}
        lines = self.timeline.pods
        return not self.timeline.failures and not any(
            line.state in odd or len(line.segments) > MANY_SEGMENTS for line in lines
        )


def timeline_picture(job: Job, timeline: Timeline, pods: tuple[PodRow, ...], attempt: int) -> Picture:
    """Return the picture of few pods, with a close-up of the first failure of the attempt."""
    marks = [mark for mark in timeline.failures if mark.first]
    wanted = [mark for mark in marks if mark.attempt == attempt] or marks
    return Picture(job, timeline, Scale.of(timeline), wanted[-1] if wanted else None, {row.pod: row for row in pods})


def many_picture(job: Job, timeline: Timeline) -> Picture:
    return Picture(job, timeline, Scale.of(timeline))


def percent(value: float) -> str:
    """Return a position for an SVG attribute."""
    return f"{value:.3f}%".replace(".000%", "%")


class Head(NamedTuple):
    """The name of an attempt above its time."""

    number: int
    left: float
    right: float
    ran: str
    first: str  # `worker-1 failed first`


def attempt_heads(picture: Picture) -> Iterator[Head]:
    scale, timeline = picture.scale, picture.timeline
    shown = [attempt for attempt in picture.job.attempts if timeline.attempt in {0, attempt.number}]
    for attempt in shown:
        end = attempt.end or timeline.end
        left, right = scale.at(max(attempt.start, scale.begin)), scale.at(end)
        following = next((scale.at(each.start) for each in shown if each.start > attempt.start), 100.0)
        ran = duration((end - attempt.start).total_seconds())
        ran += ", running" if attempt.end is None and timeline.live else ""
        first = f"{attempt.first} {'failed' if attempt.exit_code else 'ended'} first" if attempt.first else ""
        yield Head(attempt.number, left, max(right, following) if following > left else right, ran, first)


def phase_bars(picture: Picture) -> Iterator[Bar]:
    scale, timeline = picture.scale, picture.timeline
    for span in timeline.phases:
        end = span.end or timeline.end
        if end <= scale.begin and not scale.left:
            continue
        left, right = scale.at(span.start), scale.at(end)
        is_last = span is timeline.phases[-1]
        if (span.end is None and not timeline.live) or (is_last and right - left < SLIVER):
            left, right = max(0.0, min(left, 100 - SLIVER / 2)), max(right, min(100.0, left + SLIVER / 2))
        took = duration((end - span.start).total_seconds())
        tip = f"{span.phase} {took}\n{clock(span.start)} to {clock(end) if span.end else 'now'}"
        word = ""
        if right - left > WORD or (scale.left and end <= scale.begin):
            word = took if span.end and span.end <= scale.begin else span.phase
        yield Bar(span.phase.lower(), left, right, tip=tip, word=word)


def phases_words(timeline: Timeline) -> str:
    return ", ".join(f"{span.phase} {clock(span.start)}" for span in timeline.phases[:12])


def life_bars(picture: Picture, line: Lifeline) -> list[Bar]:
    """Return the parts of the life of a pod."""
    scale, bars = picture.scale, []
    for segment in line.segments:
        end = segment.end or picture.timeline.end
        ran = duration((end - segment.start).total_seconds())
        what = {"init": ", init", "wait": ", waits"}.get(segment.kind, "")
        tip = f"{line.pod} · attempt {segment.attempt}{what}\n"
        tip += f"{clock(segment.start)} to {clock(end) if segment.end else 'now'}, {ran}"
        if segment.exit:
            tip += f"\n{segment.exit}" + (f" ({segment.reason})" if segment.reason else "")
        kind = segment.kind if segment.kind in {"wait", "init"} else _kind(segment)
        mark = END_MARKS.get(segment.state) if segment.end is not None else None
        height = 4 if segment.kind == "wait" else 10
        bars.append(Bar(kind, scale.at(segment.start), scale.at(end), height, tip, mark))
    return bars


def life_words(line: Lifeline, bars: list[Bar]) -> str:
    said = "; ".join(bar.tip.replace("\n", ", ") for bar in bars)
    return f"{line.pod}: {said or 'no container has started'}"


def _kind(segment: Segment) -> str:
    """Return the kind of a bar, which the legend names. How a pod ended is said by the mark at its end."""
    return {PodState.DONE: "ok", PodState.STOPPED: "stopped"}.get(segment.state, "run")


class CloseUp(NamedTuple):
    """The last seconds of a pod. `bar` is None if it did not live then; `late`: the words stand on the left."""

    bar: Bar | None = None
    mark: tuple[str, str, int] | None = None
    at: float = 0.0
    words: str = ""
    is_first: bool = False
    late: bool = False


def close_up(picture: Picture, line: Lifeline) -> CloseUp:
    """Return how a pod ended around the first failure."""
    first = picture.first
    lived = [each for each in line.segments if first and each.attempt == first.attempt and each.kind == "run"]
    if first is None or not lived:
        return CloseUp()
    last = lived[-1]
    begin = (last.start - first.time).total_seconds()
    end = (last.end - first.time).total_seconds() if last.end else CLOSE_UP
    left, right = (100 * (BEFORE + max(-BEFORE, min(CLOSE_UP - BEFORE, each))) / CLOSE_UP for each in (begin, end))
    bar = Bar(_kind(last), left, right) if right > left else None
    if last.end is None:
        return CloseUp(bar, at=right)
    mark = END_MARKS.get(last.state) if -BEFORE <= end <= CLOSE_UP - BEFORE else None
    words = (last.exit or last.state.value).replace("exit code", "exit")
    if last.state is PodState.FIRST:
        return CloseUp(bar, mark, right, f"{words}, first", is_first=True)
    return CloseUp(bar, mark, right, f"{words}  {end:+.1f} s", late=right > LATE)


def _surface_path(picture: Picture, edge: Callable[[StateCounts], tuple[int, int]]) -> str:
    """Return the path of the surface between two counts over time."""
    total = max(1, picture.timeline.total)
    points = [(picture.scale.at(each.time) * 10, *edge(each)) for each in picture.timeline.buckets]
    upper = "".join(
        f"{'L' if index else 'M'}{x:.1f} {100 - 100 * high / total:.2f}" for index, (x, _, high) in enumerate(points)
    )
    lower = "".join(f"L{x:.1f} {100 - 100 * low / total:.2f}" for x, low, _ in reversed(points))
    return f"{upper}{lower}Z"


def surfaces(picture: Picture) -> tuple[str, str, str]:
    """Return the paths of the pods that wait, that run and that are done."""
    total = max(1, picture.timeline.total)
    return (
        _surface_path(picture, lambda each: (total - each.waiting, total)),
        _surface_path(picture, lambda each: (each.done, each.done + each.running)),
        _surface_path(picture, lambda each: (0, each.done)),
    )


def surface_labels(timeline: Timeline) -> list[tuple[str, int, str, int]]:
    """Return word, count, colour and height of the names of surfaces, where there is room for them."""
    if not timeline.buckets:
        return []
    now, total = timeline.buckets[-1], max(1, timeline.total)
    labels = []
    for word, count, below, colour in (("running", now.running, now.done, "c-run"), ("done", now.done, 0, "c-ok")):
        if count > total * LABEL_FROM:
            middle = (below + min(count, total * 2 * LABEL_FROM) / 2) / total
            labels.append((word, count, colour, round(AREA + 2 - middle * (AREA - 10))))
    return labels
