"""Draws a pod as rendered: each value with its origin, its line and the reason."""

from __future__ import annotations

from itertools import groupby
from typing import Final
from urllib.parse import urlencode

from pumice.ui.detail_values import Rendered, RenderedItem
from pumice.ui.html.frame import choose_rows
from pumice.ui.html.marks import colours
from pumice.ui.html.text import Child, Html, join, tag
from pumice.ui.values import Job

PLUGIN_COLOURS: Final = ("pl1", "pl2", "pl3", "pl4")
LIST_TO: Final = 64  # pods in the list on the left; a field chooses among more


def rendered_panel(job: Job, rendered: Rendered) -> Html:
    """Draw the tab."""
    if not rendered.items:
        words = rendered.message or "Nothing is known of this pod."
        return tag(
            "section.card",
            tag("header", tag("h2", rendered.name or rendered.pod or "Pods")),
            tag("div.body", tag("p", words)),
        )
    return tag("div.rend", _list(job, rendered), _card(rendered))


def _list(job: Job, rendered: Rendered) -> Html:
    tasks = colours(job.tasks)
    ranks = rendered.ranks or (None,) * len(rendered.pods)
    numbered = list(zip(rendered.pods, ranks, strict=True))
    if len(numbered) > LIST_TO:
        options = [
            tag("option", pod if rank is None else f"{pod}, rank {rank}", value=pod, selected=pod == rendered.pod)
            for pod, rank in numbered
        ]
        field = tag("label", tag("span.sr", "Pod"), tag("select", options, name="pod", data_choice="pod"))
        return tag(
            "form.card.plist",
            tag("input", type="hidden", name="tab", value="rendered"),
            field,
            tag("noscript", tag("button.btn.sm", "Show")),
        )
    links = [
        tag(
            "a",
            tag("i.chip", class_=tasks.get(pod.rpartition("-")[0], "t1")),
            pod,
            tag("span.r", tag("span.sr", "rank "), rank) if rank is not None else None,
            href=f"?{urlencode({'tab': 'rendered', 'pod': pod})}",
            aria_current="true" if pod == rendered.pod else None,
        )
        for pod, rank in numbered
    ]
    return tag("nav.card.plist", links, aria_label="Pods")


def _card(rendered: Rendered) -> Html:
    origins = [item.by for item in rendered.items]
    plugins = [each for each in dict.fromkeys(origins) if each not in {"you", "default", "job"}]
    counts = (
        ("all", len(origins)),
        ("you", origins.count("you")),
        ("plugins", sum(each in plugins for each in origins)),
        ("defaults", origins.count("default") + origins.count("job")),
    )
    choice = choose_rows(counts, "Set by")
    others = [("", "compare with…"), *((pod, pod) for pod in rendered.pods if pod != rendered.pod)]
    compare = tag(
        "form.inline",
        tag("input", type="hidden", name="tab", value="rendered"),
        tag("input", type="hidden", name="pod", value=rendered.pod),
        tag(
            "label",
            tag("span.sr", "Compare with"),
            tag(
                "select",
                [tag("option", words, value=value, selected=value == rendered.compare) for value, words in others],
                name="compare",
                data_choice="compare",
            ),
        ),
        tag("noscript", tag("button.btn.sm", "Compare")),
    )
    rank = (
        f"rank {rendered.rank}" + (f" of {rendered.world}" if rendered.world else "")
        if rendered.rank is not None
        else ""
    )
    sub = ", ".join(filter(None, (rank, f"attempt {rendered.attempt}")))
    header = tag("header", tag("h2", rendered.name), tag("span.sub", sub), tag("span.right", choice, compare))
    yaml = (
        tag("details.yamlbox", tag("summary", "YAML"), tag("pre", rendered.manifest, tabindex=0))
        if rendered.manifest
        else None
    )
    return tag("section.card", header, yaml, _table(rendered, plugins))


def _table(rendered: Rendered, plugins: list[str]) -> Html:
    head_cells = ["Name", "Value", *([rendered.compare] if rendered.compare else []), "Set by", "Why"]
    head = tag("thead.sr-head", tag("tr", [tag("th", name, scope="col") for name in head_cells]))
    bodies = []
    for heading, items in groupby(rendered.items, key=lambda item: item.heading):
        rows = [_row(item, rendered, plugins) for item in items]
        bodies.append(tag("tbody", tag("tr.sec", tag("th", heading, colspan=len(head_cells), scope="rowgroup")), rows))
    return tag("div.scroll", tag("table.prov", head, bodies), tabindex=0, role="region", aria_label="Pod as rendered")


def _row(item: RenderedItem, rendered: Rendered, plugins: list[str]) -> Html:
    kind = {"you": "you", "default": "df", "job": "jb"}.get(item.by) or PLUGIN_COLOURS[
        plugins.index(item.by) % len(PLUGIN_COLOURS)
    ]
    group = {"you": "you", "default": "defaults", "job": "defaults"}.get(item.by, "plugins")
    line: Child = tag("a", f"line {item.line}", href=f"?tab=policies#line-{item.line}") if item.line else None
    cells = [
        tag("td.k", tag("code", item.name), tag("span.neq", "≠ per pod") if item.per_pod else None),
        tag("td.v", tag("code", item.value)),
    ]
    if rendered.compare:
        cells.append(tag("td.v", tag("code", item.other) if item.other is not None else tag("span.muted", "–")))
    cells += [
        tag("td.f", tag("span.who", tag("i"), item.by, class_=kind), join(" ", line) if line else None),
        tag("td.why-c", item.why),
    ]
    return tag("tr.r", cells, class_="differs" if item.differs else None, data_group=group)
