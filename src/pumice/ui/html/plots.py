"""Draws measurements: sparklines, a pod against the others, a row for each pod, bands of percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pumice.ui.detail_values import Metric, Metrics, PodPage, Series
from pumice.ui.html.frame import card
from pumice.ui.html.marks import colours
from pumice.ui.html.text import KIB, Child, Html, cores, duration, plural, tag
from pumice.ui.values import Job, PodState

NAMES: Final = {"cpu": "CPU", "memory": "Memory", "gpu": "GPU busy", "gpuMemory": "GPU memory"}
UNITS: Final = {"cores": "cores", "bytes": "GiB", "percent": "%"}
LEAST_GIB: Final = 0.1  # smaller values are in MiB
LEAST_CORES: Final = 0.1  # smaller values get another digit
MINIS: Final = 3
HOT: Final = 0.95  # of the limit: the value is drawn as a cause
Points = Sequence[float | None]


def path(points: Points, top: float, width: float, height: float) -> str:
    """Return the path of a line; None leaves a gap."""
    step = width / max(1, len(points) - 1)
    parts: list[str] = []
    pen = "M"
    for index, value in enumerate(points):
        if value is None:
            pen = "M"
            continue
        y = height - height * max(0.0, min(1.0, value / top if top else 0.0))
        parts.append(f"{pen}{index * step:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)


def area(points: Points, top: float, width: float, height: float) -> str:
    """Return the path of the surface below a line."""
    known = [0.0 if value is None else value for value in points]
    return f"{path(known, top, width, height)}L{width:.1f} {height:.1f}L0 {height:.1f}Z" if known else ""


def highest(points: Points) -> float:
    """Return the highest known point, or 0."""
    return max((value for value in points if value is not None), default=0.0)


def last(points: Points) -> float | None:
    """Return the last known point."""
    return next((value for value in reversed(points) if value is not None), None)


def sparkline(points: Points, limit: float | None, *, wide: bool = False, warns: bool = False) -> Html:
    """Draw a small line, with its limit dashed on top. `warns`: at the limit it is drawn as a cause of failures."""
    if not any(value is not None for value in points):
        return tag("span.spark")
    top = max(highest(points) * 1.15, limit or 0.0) or 1.0
    hot = warns and limit is not None and highest(points) >= HOT * limit
    return tag(
        "svg.spark",
        tag("path.a", d=area(points, top, 100, 20)),
        tag("path.lim", d="M0 0.6H100") if limit and not wide else None,
        tag("path", d=path(points, top, 100, 20)),
        class_=" ".join(filter(None, ("hot" if hot else "", "wide" if wide else ""))) or None,
        viewBox="0 0 100 20",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def value_words(value: float | None, unit: str) -> str:
    """Return a value in the unit of its plot, without the unit: `11.8`; less than 0.1 GiB as `12 MiB`."""
    if value is None:
        return "–"
    if unit == "bytes":
        amount = value / KIB**3
        return f"{amount:.1f}" if amount >= LEAST_GIB or not value else f"{value / KIB**2:.0f} MiB"
    return f"{value:.0f}%" if unit == "percent" else f"{value:.2f}" if 0 < value < LEAST_CORES else f"{value:.1f}"


def limit_words(metric: Metric) -> str:
    """Return `cores, of 6`."""
    unit = UNITS.get(metric.unit, metric.unit)
    if metric.limit is None:
        return unit
    amount = f"{metric.limit / KIB**3:.4g}" if metric.unit == "bytes" else cores(metric.limit)
    return f"{unit}, of {amount}"


def against_card(job: Job, metrics: Metrics) -> Html:
    """Draw the chosen pod, or the first that failed, over all others."""
    pod = metrics.pod or (job.verdict.pod if job.verdict else "")
    title = f"{pod} against the others" if pod else "Resources"
    shown = [metric for metric in metrics.metrics if metric.name != "gpu" or len(metrics.metrics) <= MINIS][:MINIS]
    body: Child = tag(
        "div.minis",
        [_mini(metric, pod) if metric.series and not metric.median else band(metric, small=True) for metric in shown],
    )
    if not shown:
        body = tag(
            "div.body",
            tag(
                "p",
                "CPU ",
                tag("b", "–"),
                " memory ",
                tag("b", "–"),
                " ",
                tag("span.muted", f"{_reason(metrics) or 'not measured'}. A dash is not a zero."),
            ),
        )
    if any(metric.median for metric in shown):
        title = "Resources"
    sub = (
        "median, 5th to 95th percentile of the pods"
        if any(metric.median for metric in shown)
        else f"attempt {metrics.attempt}"
        if metrics.attempt
        else None
    )
    more = tag("a.btn.quiet.sm", "All pods", href="?tab=resources", data_tab="resources")
    return card(title, body, sub=sub, right=more, id="against")


def _reason(metrics: Metrics) -> str:
    return "" if metrics.message == "nothing was measured" else metrics.message


def _mini(metric: Metric, pod: str) -> Html:
    top = max([metric.limit or 0.0, *(highest(each.points) * 1.05 for each in metric.series)]) or 1.0
    others = [each for each in metric.series if each.pod != pod]
    chosen = [each for each in metric.series if each.pod == pod]
    values = [value for each in others if (value := last(each.points)) is not None]
    here = last(chosen[0].points) if chosen else None
    hot = metric.limit is not None and here is not None and here >= HOT * metric.limit
    words = f"{value_words(min(values), metric.unit)} to {value_words(max(values), metric.unit)}" if values else ""
    spoken = (
        f"{value_words(here, metric.unit)}, others {words}"
        if chosen and words
        else words or value_words(here, metric.unit)
    )
    lines = [tag("path", d=path(each.points, top, 300, 60)) for each in others] + [
        tag("path.hot", d=path(each.points, top, 300, 60)) for each in chosen
    ]
    return tag(
        "figure.mini",
        tag("figcaption", tag("b", NAMES.get(metric.name, metric.name)), " ", tag("span.muted", limit_words(metric))),
        tag(
            "svg",
            tag("path.gl", d="M0 59H300"),
            tag("path.lim", d=f"M0 {60 - 60 * metric.limit / top:.1f}H300")
            if metric.limit and metric.unit != "cores"
            else None,
            lines,
            viewBox="0 0 300 60",
            preserveAspectRatio="none",
            role="img",
            aria_label=f"{NAMES.get(metric.name, metric.name)}: {spoken}",
        ),
        tag(
            "div.muted",
            tag("b.c-fail", value_words(here, metric.unit))
            if hot
            else value_words(here, metric.unit)
            if chosen
            else None,
            (", others " if chosen else "") + words if words else None,
        ),
    )


def band(metric: Metric, *, small: bool = False) -> Html:
    """Draw the median, the 5th to 95th percentile, and pods that stand out."""
    top = (
        max([metric.limit or 0.0, highest(metric.high) * 1.1, *(highest(each.points) for each in metric.series)]) or 1.0
    )
    forward = path(metric.high, top, 300, 60)
    back = [(len(metric.low) - 1 - index, value) for index, value in enumerate(reversed(metric.low))]
    step = 300 / max(1, len(metric.low) - 1)
    closing = "".join(f"L{index * step:.1f} {60 - 60 * min(1.0, (value or 0.0) / top):.1f}" for index, value in back)
    named = ", ".join(each.pod for each in metric.series[:3])
    label = f"{NAMES.get(metric.name, metric.name)}: median {value_words(last(metric.median), metric.unit)}"
    return tag(
        "figure.mini.band",
        tag(
            "figcaption",
            tag("b", NAMES.get(metric.name, metric.name)),
            " ",
            tag("span.muted", limit_words(metric), " a pod", "; " if named else None),
            tag("span.c-fail", named) if named else None,
        ),
        tag(
            "svg",
            tag("path.gl", d="M0 59H300"),
            tag("path.q", d=f"{forward}{closing}Z") if forward else None,
            tag("path.m", d=path(metric.median, top, 300, 60)),
            [tag("path.hot", d=path(each.points, top, 300, 60)) for each in metric.series],
            viewBox="0 0 300 60",
            preserveAspectRatio="none",
            role="img",
            aria_label=label,
        ),
        None if small else tag("div.muted", label),
    )


def resources_card(job: Job, metrics: Metrics, pods: PodPage | None) -> Html:
    """Draw a row for each pod with one scale for each column, or bands for many pods."""
    if not metrics.metrics:
        return card(
            "Resources",
            tag("div.body", tag("p", tag("b", "Nothing was measured."), tag("span.muted", f" {_reason(metrics)}"))),
            id="resources",
        )
    points = max((len(each.points) for metric in metrics.metrics for each in metric.series), default=0)
    ran = f", {duration(points * metrics.step)}" if points and metrics.step else ""
    sub = f"attempt {metrics.attempt}{ran}, one scale for each column; kept after the pods are gone"
    if any(metric.median for metric in metrics.metrics):
        total = pods.total if pods else 0
        body = tag("div.bands", [band(metric) for metric in metrics.metrics])
        return card("Resources", body, sub=f"median, 5th to 95th percentile of {plural(total, 'pod')}", id="resources")
    return card(
        "Resources",
        tag("div.scroll", _rows(job, metrics, pods), tabindex=0, role="region", aria_label="Resources by pod"),
        sub=sub,
        id="resources",
    )


def _rows(job: Job, metrics: Metrics, pods: PodPage | None) -> Html:
    rows = {row.pod: row for row in pods.items} if pods else {}
    names = list(dict.fromkeys(each.pod for metric in metrics.metrics for each in metric.series))
    head = tag(
        "tr",
        tag("th", "Pod", scope="col"),
        [
            tag("th", NAMES.get(metric.name, metric.name), " ", tag("span", limit_words(metric)), scope="col")
            for metric in metrics.metrics
        ],
    )
    tasks = colours(job.tasks)
    body: list[Html] = []
    for name in names:
        row = rows.get(name)
        bad = row is not None and row.state is PodState.FIRST
        about = " · ".join(
            filter(None, (f"rank {row.rank}" if row and row.rank is not None else "", "failed first" if bad else ""))
        )
        cells = [
            _cell(metric, next((each for each in metric.series if each.pod == name), None))
            for metric in metrics.metrics
        ]
        colour = tasks.get(row.task if row else name.rpartition("-")[0], "t1")
        body.append(
            tag(
                "tr",
                tag("th", tag("b", tag("i.chip", class_=colour), name), tag("span.muted", about), scope="row"),
                cells,
                class_="bad" if bad else None,
            )
        )
    return tag("table.plots", tag("thead", head), tag("tbody", body))


def _cell(metric: Metric, series: Series | None) -> Html:
    if series is None:
        return tag("td", "–")
    top = max([metric.limit or 0.0, *(highest(each.points) * 1.05 for each in metric.series)]) or 1.0
    now, peak = value_words(last(series.points), metric.unit), value_words(highest(series.points), metric.unit)
    hot = metric.limit is not None and metric.unit != "percent" and highest(series.points) >= HOT * metric.limit
    return tag(
        "td",
        tag(
            "div.pl",
            tag(
                "svg",
                tag("path.a", d=area(series.points, top, 100, 40)),
                tag("path.lim", d=f"M0 {40 - 40 * metric.limit / top:.1f}H100")
                if metric.limit and metric.unit == "bytes"
                else None,
                tag("path", d=path(series.points, top, 100, 40)),
                viewBox="0 0 100 40",
                preserveAspectRatio="none",
                role="img",
                aria_label=f"{NAMES.get(metric.name, metric.name)}: {now}, peak {peak}",
            ),
            tag("span.v", now, tag("small", f"peak {peak}")),
            class_="hot" if hot else None,
            data_m=NAMES.get(metric.name, metric.name),
        ),
    )
