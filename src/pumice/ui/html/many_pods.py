"""Draws jobs with too many pods for a line each: counts over time, pods that stand out, and a grid of cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from pumice.ui.detail_values import PodPage, StateCounts, Timeline
from pumice.ui.html.frame import card
from pumice.ui.html.pods import pods_table
from pumice.ui.html.scale import Scale
from pumice.ui.html.text import Html, plural, tag
from pumice.ui.html.timeline import Picture, axis_row, head_row, lifeline_row, mark, overlay, phase_row
from pumice.ui.values import FAILED_STATES, Job, PodState

AREA: Final = 110
TABLE_ROWS: Final = 64  # the others are cells, and further pages of the table
LABEL_FROM: Final = 0.12  # of all pods: a smaller surface has no name
NAMED: Final = 3  # tasks
CELL_GROUPS: Final = ("running", "done", "waiting", "failed", "stopped")


def many_timeline_card(job: Job, timeline: Timeline) -> Html:
    """Draw counts by state over time, and a lifeline for each pod that stands out, or for every pod."""
    picture = Picture(job, timeline, Scale.of(timeline.created, timeline.begin, timeline.end), None, {})
    total = timeline.total
    shown = len(timeline.pods)
    which = "that stands out"
    title = f"{plural(shown, 'pod')} worth a look: failed, much slower than the rest, silent, or still waiting"
    if timeline.every:
        which = "of them" if shown >= total else f"of the first {shown:,}"
        title = f"the first {shown:,} of {plural(total, 'pod')}" if shown < total else plural(total, "pod")
        title += ", in order of index"
    words = f"{plural(total, 'pod')}: counts by state, and a line for each {which}"
    body = tag(
        "div.tl",
        overlay(picture),
        head_row(picture),
        phase_row(picture),
        _area_row(picture),
        tag("div.tl-row.tgrp", tag("span.all", title)) if timeline.pods else None,
        [lifeline_row(picture, line, note=True) for line in timeline.pods],
        axis_row(picture),
    )
    if timeline.every:
        body = tag("div.tl-every", body)
    button = _every_button(timeline)
    return card("Timeline", body, sub=words, right=button, id="timeline", aria_label="Timeline")


def _every_button(timeline: Timeline) -> Html:
    """Draw the link that shows a lifeline for every pod, and the one back."""
    words = "Only what stands out" if timeline.every else f"All {timeline.total:,} lines"
    asked = {"attempt": timeline.attempt or "", "every": "" if timeline.every else 1}
    href = f"?{urlencode({name: value for name, value in asked.items() if value})}"
    return tag("a.btn.sm", words, href=href, data_every=1)


def _area_row(picture: Picture) -> Html:
    timeline, scale = picture.timeline, picture.scale
    total = max(1, timeline.total)
    buckets = timeline.buckets
    done = _surface(scale, buckets, total, lambda each: (0, each.done))
    running = _surface(scale, buckets, total, lambda each: (each.done, each.done + each.running))
    waiting = _surface(scale, buckets, total, lambda each: (total - each.waiting, total))
    now = buckets[-1] if buckets else None
    label = (
        f"{now.done:,} done, {now.running:,} running, {now.waiting:,} waiting, {now.failed:,} failed"
        if now
        else "nothing yet"
    )
    named = [f"{task.name} ×{task.total:,}" for task in picture.job.tasks]
    tasks = " + ".join(named[:NAMED]) + (f" + {len(named) - NAMED} more" if len(named) > NAMED else "")
    shapes = tag(
        "svg",
        tag("path.wait", d=waiting, fill="url(#hatch)"),
        tag("path.run", d=running),
        tag("path.done", d=done),
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        width="100%",
        height=AREA - 10,
        y=8,
    )
    marks = [mark("g-failed", "c-fail", scale.at(each.time), 8, 14) for each in timeline.failures[:40]]
    return tag(
        "div.tl-row.area",
        tag("span.tl-label", tag("i.chip.t1"), tag("span", tasks, tag("br"), tag("span.muted", "by state"))),
        tag(
            "svg.tl-track",
            shapes,
            marks,
            _area_labels(now, total),
            role="img",
            aria_label=f"Pods by state over time: {label}",
        ),
        tag(
            "div.tl-zoom",
            tag(
                "span.zn",
                f"✕ marks the {plural(len(timeline.failures), 'failure')}; " if timeline.failures else None,
                "the hatch is what waits.",
            ),
        ),
    )


def _area_labels(now: StateCounts | None, total: int) -> list[Html]:
    """Name the surfaces at the right, where there is room."""
    if now is None:
        return []
    labels: list[Html] = []
    for word, count, below, colour in (("running", now.running, now.done, "c-run"), ("done", now.done, 0, "c-ok")):
        if count <= total * LABEL_FROM:
            continue
        middle = (below + min(count, total * 2 * LABEL_FROM) / 2) / total
        y = round(AREA + 2 - middle * (AREA - 10))
        labels.append(tag("text.lbl", f"{word} {count:,}", x="100%", dx=-12, y=y, text_anchor="end", class_=colour))
    return labels


def _surface(
    scale: Scale, buckets: tuple[StateCounts, ...], total: int, edge: Callable[[StateCounts], tuple[int, int]]
) -> str:
    if not buckets:
        return ""
    points = [(scale.at(each.time) * 10, *edge(each)) for each in buckets]
    upper = "".join(
        f"{'L' if index else 'M'}{x:.1f} {100 - 100 * high / total:.2f}" for index, (x, _, high) in enumerate(points)
    )
    lower = "".join(f"L{x:.1f} {100 - 100 * low / total:.2f}" for x, low, _ in reversed(points))
    return f"{upper}{lower}Z"


def cells_card(job: Job, page: PodPage, timeline: Timeline | None = None, chosen: str = "") -> Html:
    """Draw many pods as cells; without the script it is a table in pages. Slow and silent pods are marked."""
    groups = dict.fromkeys(CELL_GROUPS, 0)
    for state, count in page.counts.items():
        groups[cell_group(state)] += count
    names = ", ".join(task.name for task in job.tasks)
    choice = tag(
        "span.seg.js",
        [
            tag("button", word, type="button", data_cells=word, aria_pressed="true" if word == "state" else "false")
            for word in ("state", "CPU", "memory", "restarts")
        ],
        role="group",
        aria_label="Colour of the cells",
    )
    said = ", ".join(f"{count:,} {name}" for name, count in groups.items() if count)
    label = f"{plural(page.total, 'pod')} as cells: {said}. Arrow keys move, enter chooses a pod."
    grid = tag(
        "canvas.cells.js",
        id="cells",
        tabindex=0,
        role="application",
        aria_label=label,
        data_total=page.total,
        data_chosen=chosen or None,
    )
    shown = page.items[:TABLE_ROWS]
    after = shown[-1].pod if len(page.items) > len(shown) else page.after
    table = tag(
        "div.cells-table",
        pods_table(job, shown),
        id="cells-table",
        tabindex=0,
        role="region",
        aria_label="Pods as a table",
    )
    href = f"?{urlencode({'after': after})}#pods"
    more = (
        tag("p.foot", tag("a", f"The next of {plural(page.total, 'pod')}", href=href), id="cells-more")
        if after
        else None
    )
    return card(
        "Pods",
        grid,
        table,
        more,
        tag("div.foot.legend", _cells_legend(groups, timeline)),
        sub=f"{page.total:,} of {names}, in order of index",
        right=choice,
        id="pods",
    )


def _cells_legend(groups: dict[str, int], timeline: Timeline | None) -> list[Html]:
    legend = [
        tag("span", tag("i.cell", class_=f"cell-{name}"), f"{name} {groups[name]:,}")
        for name in CELL_GROUPS
        if groups[name]
    ]
    odd = [line.pod for line in timeline.pods if line.state is PodState.RUNNING and line.note] if timeline else []
    if odd:
        words = f"slow or silent {len(odd):,}"
        legend.insert(1, tag("span", tag("i.cell.cell-odd"), words, id="cells-odd", data_pods=" ".join(odd)))
    return legend


def cell_group(state: PodState) -> str:
    """Return the colour group of a cell."""
    if state in FAILED_STATES:
        return "failed"
    if state in {PodState.RUNNING, PodState.INIT, PodState.RESTARTING}:
        return "running"
    return {PodState.DONE: "done", PodState.STOPPED: "stopped"}.get(state, "waiting")
