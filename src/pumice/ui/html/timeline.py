"""Draws the timeline of a job: phases, attempts, a lifeline for each pod, and a close-up of the first failure."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

from pumice.ui.detail_values import FailureMark, Lifeline, PhaseSpan, PodRow, Segment, Timeline
from pumice.ui.html.frame import card
from pumice.ui.html.marks import colours, icon
from pumice.ui.html.plots import sparkline
from pumice.ui.html.scale import Scale
from pumice.ui.html.text import Child, Html, clock, duration, join, number, plural, pod_link, tag
from pumice.ui.values import Job, PodState

BEFORE: Final = 0.5  # seconds of the close-up before the first failure
CLOSE_UP: Final = 2.5  # seconds of the close-up
SLIVER: Final = 1.2  # percent: the last phase has at least half of it
WORD: Final = 6.0  # percent: a phase that is narrower has no word, but a hint
ROW: Final = 22
MANY_SEGMENTS: Final = 4
LATE: Final = 66  # percent of the close-up from which words stand on the left of a mark
LAST_TICK, BEFORE_NOW = 97, 88  # percent: ticks further right are moved or left out


@dataclass(frozen=True, slots=True)
class Picture:
    """What all rows share."""

    job: Job
    timeline: Timeline
    scale: Scale
    first: FailureMark | None  # around which the close-up is
    sparks: dict[str, PodRow]

    @property
    def zoom(self) -> str:
        """Return what the column on the right shows: failure, spark or nothing."""
        if self.first is not None:
            return "failure"
        return "spark" if self.timeline.live and any(any(row.cpu_points) for row in self.sparks.values()) else ""


def timeline_card(job: Job, timeline: Timeline, pods: tuple[PodRow, ...] = (), attempt: int = 0) -> Html:
    """Draw the card."""
    picture = _picture(job, timeline, pods, attempt)
    words = f"{plural(max(1, len(job.attempts)), 'attempt')}, {plural(timeline.total or len(timeline.pods), 'pod')}"
    if picture.scale.left:
        words += "; the wait before is folded"
    quiet = not timeline.failures and not any(_stands_out(line) for line in timeline.pods)
    rows = [lifeline_row(picture, line) for line in timeline.pods]
    body = tag(
        "div.tl",
        overlay(picture),
        head_row(picture),
        phase_row(picture),
        rows,
        axis_row(picture),
        class_=" ".join(filter(None, ("quiet" if quiet else "", "" if picture.zoom else "nozoom"))) or None,
    )
    return card("Timeline", body, sub=words, right=_legend(timeline), id="timeline", aria_label="Timeline")


def _picture(job: Job, timeline: Timeline, pods: tuple[PodRow, ...], attempt: int) -> Picture:
    marks = [mark for mark in timeline.failures if mark.first]
    wanted = [mark for mark in marks if mark.attempt == attempt] or marks
    scale = Scale.of(timeline.created, timeline.begin, timeline.end)
    return Picture(job, timeline, scale, wanted[-1] if wanted else None, {row.pod: row for row in pods})


def _stands_out(line: Lifeline) -> bool:
    return (
        line.state in {PodState.FIRST, PodState.FAILED, PodState.RESTARTING, PodState.WAITING}
        or len(line.segments) > MANY_SEGMENTS
    )


def _legend(timeline: Timeline) -> Html:
    states = {segment.state for line in timeline.pods for segment in line.segments}
    kinds = {segment.kind for line in timeline.pods for segment in line.segments}
    parts: list[Html] = []
    if "init" in kinds:
        parts.append(tag("span", tag("i.k.init"), "init"))
    parts.append(tag("span", tag("i.k.run"), "running"))
    if PodState.DONE in states:
        parts.append(tag("span", tag("i.k.ok"), "done"))
    if PodState.STOPPED in states:
        parts.append(tag("span", tag("i.k.stopped"), "stopped"))
    if timeline.failures:
        parts.append(tag("span.c-fail", icon("g-failed"), "failed first"))
    if PodState.FOLLOWED in states:
        parts.append(tag("span", tag("span.c-fail", icon("p-follow", "p")), "followed"))
    if PodState.RESTARTING in states:
        parts.append(tag("span", tag("span.c-warn", icon("g-restarting")), "restarted"))
    return tag("span.legend", parts)


def percent(value: float) -> str:
    """Return a position for an SVG attribute."""
    return f"{value:.3f}%".replace(".000%", "%")


def rect(kind: str, left: float, right: float, y: float, height: float, **attributes: str | int | None) -> Html:
    """Draw a bar between two positions in percent."""
    return tag(
        "rect",
        class_=kind,
        x=percent(left),
        y=y,
        width=percent(max(0.15, right - left)),
        height=height,
        rx=2,
        **attributes,
    )


def mark(symbol: str, colour: str, left: float, middle: float, size: float) -> Html:
    """Draw a symbol whose middle is at a position."""
    background = tag("circle", cx=0, cy=middle, r=size / 2 + 1) if symbol == "g-restarting" else None
    return tag(
        "svg",
        background,
        tag("use", href=f"#{symbol}", x=-size / 2, y=middle - size / 2, width=size, height=size),
        class_=f"cp {colour}",
        x=percent(left),
        overflow="visible",
    )


def overlay(picture: Picture) -> Html:
    """Draw the lines over all rows: starts of attempts, ticks, first failures, now."""
    scale = picture.scale
    lines: list[Html] = []
    if scale.left:
        lines.append(tag("rect.fold", x=0, y=34, width=percent(scale.left * 0.95), height="100%", fill="url(#hatch)"))
    begun = [attempt.start for attempt in picture.job.attempts if scale.begin <= attempt.start <= scale.end]
    lines += [_rule("att", scale.at(start), 0) for start in begun]
    lines += [_rule("tick", left, 58) for left, _ in scale.ticks()[1:]]
    lines += [_rule("ff", scale.at(each.time), 30) for each in picture.timeline.failures if each.first]
    if picture.timeline.live:
        lines.append(_rule("now", scale.at(picture.timeline.end), 30))
    return tag("svg.tl-over", lines, aria_hidden="true")


def _rule(kind: str, left: float, top: int) -> Html:
    return tag("line", class_=kind, x1=percent(left), x2=percent(left), y1=top, y2="100%")


def head_row(picture: Picture) -> Html:
    """Draw the names of attempts above their time."""
    scale, timeline = picture.scale, picture.timeline
    names: list[Html] = [_head("waited", 0, scale.left, "w")] if scale.left else []
    shown = [attempt for attempt in picture.job.attempts if timeline.attempt in {0, attempt.number}]
    for attempt in shown:
        end = attempt.end or timeline.end
        left, right = scale.at(max(attempt.start, scale.begin)), scale.at(end)
        nxt = next((scale.at(each.start) for each in shown if each.start > attempt.start), 100.0)
        words = duration((end - attempt.start).total_seconds()) + (
            ", running" if attempt.end is None and timeline.live else ""
        )
        first = tag("span.xl", f" · {attempt.first} failed first") if attempt.first else None
        names.append(
            _head(
                join(f"attempt {attempt.number} ", tag("small", words, first)),
                left,
                max(right, nxt) if nxt > left else right,
            )
        )
    zoom = {"failure": f"close-up: {CLOSE_UP:g} s", "spark": "CPU, last minutes", "": ""}[picture.zoom]
    return tag("div.tl-row.head", tag("span"), tag("svg.tl-track", names), tag("div.tl-zoom.nb", zoom))


def _head(words: Child, left: float, right: float, kind: str = "") -> Html:
    return tag(
        "foreignObject",
        tag("div.h", words, class_=kind or None),
        x=percent(left),
        y=6,
        width=percent(max(0.5, right - left)),
        height=24,
    )


def phase_row(picture: Picture) -> Html:
    """Draw the phases of the job."""
    scale, timeline = picture.scale, picture.timeline
    parts: list[Html] = []
    for span in timeline.phases:
        end = span.end or timeline.end
        if end <= scale.begin and not scale.left:
            continue
        left, right = scale.at(span.start), scale.at(end)
        is_last = span is timeline.phases[-1]
        if (span.end is None and not timeline.live) or (is_last and right - left < SLIVER):
            left, right = max(0.0, min(left, 100 - SLIVER / 2)), max(right, min(100.0, left + SLIVER / 2))
        kind = span.phase.lower()
        parts.append(rect(f"sg sg-{kind}", left, right, 5, 18, data_tip=_phase_tip(span, end)))
        if right - left > WORD or (scale.left and end <= scale.begin):
            word = duration((end - span.start).total_seconds()) if span.end and span.end <= scale.begin else span.phase
            parts.append(
                tag(
                    "foreignObject",
                    tag(f"div.sgw.sgw-{kind}", tag("span", word)),
                    x=percent(left),
                    y=5,
                    width=percent(right - left),
                    height=18,
                )
            )
    label = ", ".join(f"{span.phase} {clock(span.start)}" for span in timeline.phases[:12])
    return tag(
        "div.tl-row.phase",
        tag("span.tl-label.muted", "phase"),
        tag("svg.tl-track", parts, role="img", aria_label=f"Phases: {label}"),
        tag("div.tl-zoom", _zoom_line(picture)),
    )


def _phase_tip(span: PhaseSpan, end: dt.datetime) -> str:
    words = f"{span.phase} {duration((end - span.start).total_seconds())}\n{clock(span.start)} to "
    return words + (clock(end) if span.end else "now")


def lifeline_row(picture: Picture, line: Lifeline, *, note: bool = False) -> Html:
    """Draw the life of one pod."""
    scale, timeline = picture.scale, picture.timeline
    parts: list[Html] = []
    marks: list[Html] = []
    labels: list[str] = []
    for index, segment in enumerate(line.segments):
        end = segment.end or timeline.end
        left, right = scale.at(segment.start), scale.at(end)
        tip = _segment_tip(line, segment, end)
        labels.append(tip.replace("\n", ", "))
        kind = {"wait": "br wait", "init": "br init"}.get(segment.kind) or f"br {_bar(segment.state)}"
        height = 4 if segment.kind == "wait" else 10
        parts.append(
            rect(
                kind,
                left,
                right,
                (ROW - height) / 2,
                height,
                data_tip=tip,
                tabindex=0 if index == 0 else -1,
                role="img",
                aria_label=tip,
            )
        )
        if segment.end is not None:
            marks += _end_mark(segment.state, right)
    bad = line.state is PodState.FIRST or (picture.first is not None and picture.first.pod == line.pod)
    colour = colours(picture.job.tasks).get(line.task, "t1")
    return tag(
        "div.tl-row",
        tag(
            "a.tl-label",
            tag("i.chip", class_=colour),
            tag("span", line.pod),
            href=pod_link(line.pod, _attempt_of(line)),
            data_pod=line.pod,
        ),
        tag(
            "svg.tl-track",
            parts,
            marks,
            role="group",
            aria_label=f"{line.pod}: {'; '.join(labels) or 'no container has started'}",
        ),
        tag("div.tl-zoom", tag("span.zn", line.note) if note else _zoom(picture, line)),
        class_="bad" if bad else None,
    )


def _attempt_of(line: Lifeline) -> int:
    return line.segments[-1].attempt if line.segments else 0


def _bar(state: PodState) -> str:
    return {PodState.FIRST: "first", PodState.DONE: "ok", PodState.STOPPED: "stopped"}.get(state, "run")


def _end_mark(state: PodState, left: float) -> list[Html]:
    if state is PodState.FIRST or state is PodState.FAILED:
        return [mark("g-failed", "c-fail", left, ROW / 2, 14)]
    if state is PodState.FOLLOWED:
        return [mark("p-follow", "c-fail", left, ROW / 2, 10)]
    if state is PodState.RESTARTING:
        return [mark("g-restarting", "c-warn", left, ROW / 2, 13)]
    return []


def _segment_tip(line: Lifeline, segment: Segment, end: dt.datetime) -> str:
    words = [
        f"{line.pod} · attempt {segment.attempt}"
        + (", init" if segment.kind == "init" else ", waits" if segment.kind == "wait" else "")
    ]
    ran = duration((end - segment.start).total_seconds())
    words.append(f"{clock(segment.start)} to {clock(end) if segment.end else 'now'}, {ran}")
    if segment.exit:
        words.append(segment.exit + (f" ({segment.reason})" if segment.reason else ""))
    return "\n".join(words)


def _zoom_line(picture: Picture) -> Child:
    if picture.zoom != "failure":
        return None
    return tag("svg.zm", _rule("ff", 100 * BEFORE / CLOSE_UP, 0), aria_hidden="true")


def _zoom(picture: Picture, line: Lifeline) -> Child:
    if picture.zoom == "spark" and line.pod in picture.sparks:
        return sparkline(picture.sparks[line.pod].cpu_points, None, wide=True)
    if picture.first is None:
        return None
    moment, attempt = picture.first.time, picture.first.attempt
    segments = [each for each in line.segments if each.attempt == attempt and each.kind == "run"]
    parts: list[Html] = [_rule("ff", 100 * BEFORE / CLOSE_UP, 0)]
    if segments:
        last = segments[-1]
        begin = (last.start - moment).total_seconds()
        end = (last.end - moment).total_seconds() if last.end else CLOSE_UP
        left, right = (100 * (BEFORE + max(-BEFORE, min(CLOSE_UP - BEFORE, each))) / CLOSE_UP for each in (begin, end))
        if right > left:
            parts.append(rect(f"br {_bar(last.state)}", left, right, (ROW - 10) / 2, 10))
        if last.end is not None and -BEFORE <= end <= CLOSE_UP - BEFORE:
            parts += _end_mark(last.state, right)
        parts.append(_zoom_words(last, end, right))
    return tag("svg.zm", parts, aria_hidden="true")


def _zoom_words(last: Segment, end: float, right: float) -> Html:
    if last.end is None:
        return join()
    words = (last.exit or last.state.value).replace("exit code", "exit")
    if last.state is PodState.FIRST:
        return tag("text.zt.first", f"{words}, first", x=percent(right), dx=11, y=ROW / 2 + 4)
    late = right > LATE
    return tag(
        "text.zt",
        f"{words}  {end:+.1f} s",
        x=percent(right),
        dx=-9 if late else 11,
        y=ROW / 2 + 4,
        text_anchor="end" if late else None,
        class_="on" if late else None,
    )


def axis_row(picture: Picture) -> Html:
    """Draw the axis of the picture and of the close-up."""
    scale = picture.scale
    marks = scale.ticks()
    texts = [
        tag(
            "text",
            words,
            x=percent(left),
            y=15,
            text_anchor="start" if index == 0 else "end" if left > LAST_TICK else "middle",
        )
        for index, (left, words) in enumerate(marks)
        if not (picture.timeline.live and left > BEFORE_NOW)
    ]
    if picture.timeline.live:
        texts.append(tag("text", "now", x="100%", y=15, text_anchor="end"))
    zoom: Child = None
    if picture.zoom == "failure":
        here = percent(100 * BEFORE / CLOSE_UP)
        zoom = tag(
            "svg.zm",
            tag("text", f"−{BEFORE:g} s", x=0, y=15),
            tag("text", "0", x=here, y=15, text_anchor="middle"),
            tag("text", f"+{number(CLOSE_UP - BEFORE, 1)} s", x="100%", y=15, text_anchor="end"),
            aria_hidden="true",
        )
    return tag(
        "div.tl-row.axis", tag("span"), tag("svg.tl-track", texts, aria_hidden="true"), tag("div.tl-zoom.nb", zoom)
    )
