"""Draws the table of pods."""

from __future__ import annotations

from itertools import groupby

from pumice.ui.detail_values import PodPage, PodRow
from pumice.ui.html.frame import card
from pumice.ui.html.marks import STATES, colours, count_words, pod_mark
from pumice.ui.html.plots import sparkline, value_words
from pumice.ui.html.text import KIB, Child, Html, cores, join, pod_link, tag
from pumice.ui.values import Job, PodState


def pods_card(job: Job, page: PodPage, chosen: str = "") -> Html:
    """Draw the pods of an attempt."""
    running = page.counts.get(PodState.RUNNING, 0)
    sub = f"{running} of {page.total} running" if job.is_active else f"attempt {page.attempt}, as they ended"
    return card(
        "Pods",
        tag("div.scroll", pods_table(job, page.items, chosen), tabindex=0, role="region", aria_label="Pods"),
        sub=sub,
        id="pods",
    )


def pods_table(job: Job, rows: tuple[PodRow, ...], chosen: str = "") -> Html:
    """Draw a table with a heading for each task."""
    has_gpu = any(row.gpu is not None or row.gpus for row in rows)
    has_node = len({row.node for row in rows}) > 1
    heads: list[tuple[Child, str]] = [
        ("State", ""),
        ("Pod", ""),
        ("Rank", "num"),
        ("Node, address" if has_node else "Address", "hide"),
    ]
    heads += [(join(tag("span.sr", "Restarts"), tag("span", "↻", aria_hidden="true")), "num")]
    heads += [(join("CPU", tag("span.un", ", cores")), "num"), (join("Memory", tag("span.un", ", GiB")), "num")]
    heads += [("GPU", "num hide")] if has_gpu else []
    head = tag("thead", tag("tr", [tag("th", name, class_=kind or None, scope="col") for name, kind in heads]))
    tasks = colours(job.tasks)
    bodies: list[Html] = []
    for task, group in groupby(rows, key=lambda row: row.task):
        members = list(group)
        counts: dict[PodState, int] = {}
        for row in members:
            counts[row.state] = counts.get(row.state, 0) + 1
        words = tag("span.muted", f"×{len(members)} · {count_words(counts)}")
        heading = tag(
            "tr.tg",
            tag(
                "th",
                tag("span", tag("i.chip"), class_=tasks.get(task, "t1")),
                f" {task} ",
                words,
                colspan=len(heads),
                scope="rowgroup",
            ),
        )
        bodies.append(tag("tbody", heading, [_row(row, chosen, has_gpu=has_gpu, has_node=has_node) for row in members]))
    return tag("table.grid", head, bodies, aria_label="Pods")


def _row(row: PodRow, chosen: str, *, has_gpu: bool, has_node: bool) -> Html:
    memory_limit = f" / {row.memory_limit / KIB**3:.3g}" if row.memory_limit else ""
    cells = [
        tag("td", tag("span.st", pod_mark(row.state), STATES[row.state][2])),
        tag(
            "td",
            tag(
                "a.pn",
                row.pod,
                href=pod_link("" if row.pod == chosen else row.pod, row.attempt),
                data_pod=row.pod,
                aria_current="true" if row.pod == chosen else None,
            ),
        ),
        tag("td.num", row.rank if row.rank is not None else "–"),
        tag("td.hide.mono", " · ".join(filter(None, (row.node if has_node else "", row.address))) or "–"),
        tag("td.num", row.restarts),
        tag(
            "td.num",
            _measure(
                sparkline(row.cpu_points, row.cpu_limit),
                value_words(row.cpu, "cores"),
                f" / {cores(row.cpu_limit)}" if row.cpu_limit else "",
            ),
        ),
        tag(
            "td.num",
            _measure(
                sparkline(row.memory_points, row.memory_limit, warns=True),
                value_words(row.memory, "bytes"),
                memory_limit,
            ),
        ),
    ]
    if has_gpu:
        cells.append(tag("td.num.hide", value_words(row.gpu, "percent")))
    return tag("tr.row", cells, id=f"pod-{row.pod}", class_="bad" if row.state is PodState.FIRST else None)


def _measure(spark: Html, value: str, limit: str) -> Html:
    return tag("span.spk", spark, tag("b", value, tag("small", limit) if limit and value != "–" else None))
