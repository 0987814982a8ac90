"""Draws the logs of a job: the bar with search and choices, lines by second, and the lines themselves.

The script draws later lines in the same way (`static/lines.js`); a test compares the two.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

from pumice.ui.detail_values import LogLine, LogWindow, SearchResult, Volume
from pumice.ui.html.marks import PUMICE_COLOUR, colours, icon
from pumice.ui.html.text import Child, Html, clock, duration, escape, join, number, offset, plural, tag
from pumice.ui.values import Job
from pumice.ui.views import JobView

HEIGHT: Final = 26
SGR: Final = re.compile("\x1b\\[([0-9;]{0,40})m")
NORMAL, BRIGHT = range(30, 38), range(90, 98)
NO_WEIGHT, NO_COLOUR = 22, 39
PUMICE_CHIP: Final = (":pumice", "pumice", PUMICE_COLOUR)  # a name that no task can have


def logs_card(view: JobView) -> Html:
    """Draw the card."""
    logs, job = view.logs, view.job
    if logs is None or not logs.total:
        return _nothing(job)
    shown = join([line_row(line, logs, colours(job.tasks), _mark(view.search)) for line in logs.items])
    lines = tag(
        "div.lines.wrap",
        tag("div.pad"),
        tag("div.rows", shown),
        tag("div.pad"),
        id="lines",
        role="log",
        aria_live="off",
        tabindex=0,
        aria_label="Log lines",
    )
    return tag(
        "section.card.log",
        _header(view, logs),
        _search_bar(view, logs),
        _choices(view),
        _volume(view.volume, logs) if view.volume else None,
        tag("p.share", id="share", hidden=True),
        lines,
        _pages(view, logs),
        _foot(logs),
        id="logs",
        aria_labelledby="logs-title",
        data_total=logs.total,
        data_at=logs.at,
        data_attempt=view.chosen.attempt,
        data_begin=logs.begin.isoformat() if logs.begin else None,
        data_first=logs.first_error,
        data_live="1" if logs.live else None,
        data_tasks=" ".join(f"{name}={kind.replace(' ', '.')}" for name, kind in colours(job.tasks).items()),
    )


def _header(view: JobView, logs: LogWindow) -> Html:
    pods = sum(task.total for task in view.job.tasks)
    words = f"{plural(pods, 'pod')} merged, {'live' if logs.live else 'by time'}"
    if view.chosen.pod:
        words = f"{view.chosen.pod} only"
    buttons = [
        tag(
            "button.btn.quiet.icon.sm.js",
            icon(f"i-{name}"),
            type="button",
            data_log=name,
            aria_label=label,
            data_tip=tip,
        )
        for name, label, tip in (
            ("download", "Download these lines", "Download what is chosen"),
            ("max", "Full screen", "Full screen (z)"),
        )
    ]
    return tag("header", tag("h2", "Logs", id="logs-title"), tag("span.sub", words), tag("span.right", buttons))


def _nothing(job: Job) -> Html:
    started = job.started is not None
    first = "No pod has written a line." if started else "No pod has started, so there are no lines yet."
    rest = (
        ""
        if job.finished
        else "This page follows them when they come. What the pods will get is under “Pods as rendered” already."
    )
    return tag(
        "section.card.log.none",
        tag("header", tag("h2", "Logs", id="logs-title")),
        tag("div.body", tag("p", tag("b", first)), tag("p.muted", rest) if rest else None),
        id="logs",
        aria_labelledby="logs-title",
        data_total=0,
    )


def _query(view: JobView, **more: str | int) -> str:
    chosen = view.chosen
    items = {"attempt": chosen.attempt or "", "pod": chosen.pod, "task": chosen.task, "stream": chosen.stream, **more}
    if view.logs is not None and view.logs.lines is not None and view.search is not None:
        items |= {"q": view.search.q, "only": 1}
    return urlencode({key: value for key, value in items.items() if value != ""})


def _search_bar(view: JobView, logs: LogWindow) -> Html:
    found = view.search
    count = plural(found.total, "match", "matches") if found and not found.message else found.message if found else ""
    hidden = [
        tag("input", type="hidden", name=name, value=value)
        for name, value in (
            ("attempt", view.chosen.attempt or ""),
            ("pod", view.chosen.pod),
            ("task", view.chosen.task),
            ("stream", view.chosen.stream),
        )
        if value
    ]
    field = tag(
        "label.field",
        icon("i-search"),
        tag("span.sr", "Search the logs"),
        tag(
            "input",
            type="search",
            name="q",
            id="search",
            value=found.q if found else None,
            placeholder="Search: highlights, hides nothing",
            autocomplete="off",
        ),
        tag("span.n", count, id="matches", aria_live="polite"),
        tag("kbd", "/"),
    )
    only = tag(
        "label.btn.sm.only",
        tag("input", type="checkbox", name="only", value=1, id="only", checked=logs.lines is not None),
        "Only matches",
    )
    first = None
    if logs.first_error is not None:
        first = tag(
            "a.btn.sm",
            tag("span.c-fail", icon("p-fail", "p")),
            "First error",
            href=f"?{_query(view, at=max(0, logs.first_error - 20))}#first",
            data_log="first",
            data_tip="Jump to the first error (e)",
        )
    return tag(
        "form.lbar",
        hidden,
        field,
        only,
        first,
        tag("span.opt", _toggles(logs)),
        action=f"/jobs/{view.job.uid}",
        role="search",
        aria_label="Logs",
    )


def _toggles(logs: LogWindow) -> list[Html]:
    return [
        tag(
            "button.btn.sm.js",
            word,
            type="button",
            data_log=name,
            aria_pressed="true" if on else "false",
            data_tip=tip,
        )
        for name, word, on, tip in (
            ("follow", "Follow", logs.live, "Follow new lines (f). Scrolling up pauses it, the end resumes it"),
            ("time", "Times", True, "Times (t): from the start; hover for the clock"),
            ("wrap", "Wrap", True, "Wrap long lines (w)"),
        )
    ]


def _choices(view: JobView) -> Html:
    tasks = colours(view.job.tasks)
    chips = [
        tag(
            "button.tchip.js",
            tag("i.chip"),
            tag("span", name),
            type="button",
            class_=colour,
            data_hides=hides,
            aria_pressed="true",
        )
        for hides, name, colour in [*((name, name, colour) for name, colour in tasks.items()), PUMICE_CHIP]
    ]
    pods = [row.pod for row in view.pods.items] if view.pods else []
    if view.chosen.pod and view.chosen.pod not in pods:
        pods.insert(0, view.chosen.pod)
    attempts = [("0", "all attempts")] + [(str(each.number), f"attempt {each.number}") for each in view.job.attempts]
    return tag(
        "form.lbar.opt2",
        chips,
        tag(
            "span.sp",
            _select("pod", "Pod", [("", "all pods"), *((pod, pod) for pod in pods)], view.chosen.pod),
            _select("attempt", "Attempt", attempts, str(view.chosen.attempt)),
            _select("stream", "Stream", [("", "out + err"), ("stdout", "out"), ("stderr", "err")], view.chosen.stream),
            tag("noscript", tag("button.btn.sm", "Show")),
        ),
        action=f"/jobs/{view.job.uid}",
        aria_label="Lines to show",
    )


def _select(name: str, label: str, options: list[tuple[str, str]], chosen: str) -> Html:
    items = [tag("option", words, value=value, selected=value == chosen) for value, words in options]
    return tag("label", tag("span.sr", label), tag("select", items, name=name, data_choice=name))


def _volume(volume: Volume, logs: LogWindow) -> Html:
    if not volume.buckets or volume.begin is None or volume.end is None:
        return join()
    wide = 1000 / len(volume.buckets)
    most = max(bucket.lines for bucket in volume.buckets) or 1
    bars: list[Html] = []
    for index, bucket in enumerate(volume.buckets):
        if not bucket.lines:
            continue
        height = max(3.0, (HEIGHT - 2) * bucket.lines / most)
        bars.append(
            tag(
                "rect.b",
                x=round(index * wide, 1),
                y=round(HEIGHT - 2 - height, 1),
                width=round(max(1.0, wide * 0.8), 1),
                height=round(height, 1),
                data_line=bucket.first,
            )
        )
    failures = {index for index, bucket in enumerate(volume.buckets) if bucket.errors}
    if logs.first_error is not None:
        before = [i for i, bucket in enumerate(volume.buckets) if bucket.lines and bucket.first <= logs.first_error]
        failures.add(before[-1] if before else 0)
    bars += [tag("rect.e", x=round(index * wide, 1), y=0, width=6, height=HEIGHT) for index in sorted(failures)]
    frame = tag("rect.win", id="window", x=0, y=1, width=998, height=HEIGHT - 2, rx=3)
    label = "Lines by time, with the first error marked and the part on screen framed"
    return tag(
        "div.hist",
        tag("span", "lines"),
        tag(
            "svg",
            bars,
            frame,
            viewBox=f"0 0 1000 {HEIGHT}",
            preserveAspectRatio="none",
            role="img",
            aria_label=label,
            id="volume",
        ),
        tag("span.nowrap", duration((volume.end - volume.begin).total_seconds())),
    )


def _mark(search: SearchResult | None) -> str:
    return search.q if search and search.total else ""


def line_row(line: LogLine, logs: LogWindow, tasks: dict[str, str], q: str = "") -> Html:
    """Draw one line."""
    time = offset((line.time - logs.begin).total_seconds()) if line.time and logs.begin else ""
    if line.kind == "gap":
        return tag("div.trunc", line.text, data_n=line.number)
    first = line.number == logs.first_error
    gutter = "×" if first else "err" if line.error or line.stream == "stderr" else ""
    classes = ["sys", PUMICE_COLOUR] if line.kind != "line" else [tasks.get(line.task, "t1")]
    classes += ["first"] if first else ["err"] if line.error else []
    message: Child = message_html(line.text, q) if line.kind == "line" else line.text
    folded = plural(line.redraws, "redraw") if line.redraws else f"{number(line.cut)} bytes," if line.cut else ""
    more = tag("button.fold-n", f"{folded} folded · show", type="button", data_whole=line.number) if folded else None
    return tag(
        "div.ln",
        tag("span.gm", gutter),
        tag("span.ts", time, title=clock(line.time) if line.time else None),
        tag("span.pf", line.pod or "pumice"),
        tag("span.msg", message, more),
        class_=" ".join(classes),
        data_n=line.number,
        data_task=line.task if line.kind == "line" else None,
        id="first" if first else None,
    )


def message_html(text: str, q: str = "") -> Html:
    """Draw the text of a line: of escape sequences only colours, other control characters as tags, matches marked."""
    parts: list[Html] = []
    style: tuple[str, ...] = ()
    at = 0
    for match in [*SGR.finditer(text), None]:
        piece = text[at : match.start() if match else len(text)]
        if piece:
            marked = mark_matches(piece, q)
            parts.append(tag("span", marked, class_=" ".join(style)) if style else marked)
        if match:
            style, at = sgr(style, match[1]), match.end()
    return join(parts)


def mark_matches(text: str, q: str) -> Html:
    """Return text with each occurrence of `q` marked, whatever its case."""
    if not q:
        return escape(text)
    pieces = re.split(f"({re.escape(q)})", text, flags=re.IGNORECASE)
    return join([tag("mark", piece) if index % 2 else piece for index, piece in enumerate(pieces)])


def sgr(style: tuple[str, ...], codes: str) -> tuple[str, ...]:
    """Return the classes after an escape sequence for colours: bold, dim and the 16 colours."""
    for code in codes.split(";"):
        value = int(code or "0")
        if value == 0:
            style = ()
        elif value in {1, 2}:
            style = (*style, "a-b" if value == 1 else "a-d")
        elif value == NO_WEIGHT:
            style = tuple(each for each in style if each not in {"a-b", "a-d"})
        elif value in NORMAL or value in BRIGHT or value == NO_COLOUR:
            style = tuple(each for each in style if not each.startswith("a-c"))
            style = style if value == NO_COLOUR else (*style, f"a-c{value % 10}")
        elif value in {38, 48}:  # a colour by number: its parameters follow, and no later one is a code
            return style
    return style


def _pages(view: JobView, logs: LogWindow) -> Child:
    """Draw links to other lines, for browsers without the script."""
    last = logs.at + len(logs.items)
    links: list[Html] = []
    if logs.at > 0:
        links.append(tag("a", "Earlier lines", href=f"?{_query(view, at=max(0, logs.at - 200))}#logs"))
    if last < logs.total:
        links.append(tag("a", "Later lines", href=f"?{_query(view, at=last)}#logs"))
    return tag("noscript", tag("div.foot", links)) if links else None


def _foot(logs: LogWindow) -> Html:
    kept = "the oldest were removed" if logs.truncated else "all kept"
    words = f"{plural(logs.total, 'line')}, {plural(logs.errors, 'error')}; {kept}"
    if logs.lines is not None:
        words = f"{logs.total:,} of {plural(logs.lines, 'line')}: only matches"
    others = ", ".join(
        f"{attempt} ({plural(count, 'line')})" for attempt, count in sorted(logs.others.items()) if count
    )
    return tag(
        "div.foot", tag("span", words, id="log-total"), tag("span.sp", f"other attempts: {others}") if others else None
    )
