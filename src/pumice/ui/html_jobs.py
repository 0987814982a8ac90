"""Draws the list of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from pumice.ui.html.frame import copyable, document, meters
from pumice.ui.html.marks import LOGO, MARKS_TO, colours, icon, outcome_mark, phase, task_pods
from pumice.ui.html.text import Child, Html, ago, brief, cores, duration, gib, join, plural, tag, time_tag
from pumice.ui.values import FAILED_STATES, Group, Info, JobRow, Listing, PodState, TaskPods
from pumice.ui.views import JobsView

FILTERS: Final = (
    (Group.ALL, "All", "", ""),
    (Group.ACTIVE, "Active", "g-running", "c-run"),
    (Group.WAITING, "Waiting", "g-pending", "c-wait"),
    (Group.FAILED, "Failed", "g-failed", "c-fail"),
    (Group.SUSPENDED, "Suspended", "g-aborted", "c-hold"),
    (Group.DONE, "Done", "g-completed", "c-ok"),
)
SECTIONS: Final = (
    ("Active", (Group.ACTIVE,)),
    ("Waiting and suspended", (Group.WAITING, Group.SUSPENDED)),
    ("Finished", (Group.FAILED, Group.DONE)),
)
COLUMNS: Final = (
    ("Phase", ""), ("Job", ""), ("Tasks and pods", ""), ("Attempts", "num at"), ("Created", "num age"), ("Ran", "num"),
    ("What is going on, and the last line", ""),
)  # fmt: skip


def page(view: JobsView) -> str:
    """Return the whole page."""
    main = _welcome(view.frame.info) if not view.listing.counts.get(Group.ALL) else _list(view)
    return document(view.frame, "Jobs", main, view="jobs")


def _list(view: JobsView) -> Html:
    search = tag(
        "form.find",
        tag("input", type="hidden", name="phase", value=view.listing.phase.value),
        tag(
            "label.field",
            icon("i-search"),
            tag("span.sr", "Filter jobs"),
            tag(
                "input",
                type="search",
                name="q",
                id="filter",
                value=view.listing.q,
                placeholder="Filter: name, task, queue, plugin",
                autocomplete="off",
            ),
            tag("kbd", "/"),
        ),
        action="/",
        role="search",
    )
    return join(
        tag(
            "div.lhead",
            tag("h1", "Jobs"),
            tag("div.filters", _filters(view), id="filters", role="group", aria_label="Show"),
            search,
        ),
        tag("div.card.cap", meters(view.frame.info), aria_label="What is reserved of this machine", role="group"),
        tag("div", _rows(view), id="rows"),
    )


def _filters(view: JobsView) -> Html:
    listing = view.listing
    buttons = []
    for group, label, mark, colour in FILTERS:
        query = urlencode(
            {key: value for key, value in (("phase", group.value), ("q", listing.q)) if value and value != "all"}
        )
        buttons.append(
            tag(
                "a.btn",
                tag("span", icon(mark), class_=colour) if mark else None,
                f"{label} ",
                tag("span.n", f"{listing.counts.get(group, 0):,}"),
                href=f"/?{query}" if query else "/",
                aria_current="true" if listing.phase is group else None,
                data_filter=group.value,
            )
        )
    return join(buttons)


def _rows(view: JobsView) -> Html:
    listing = view.listing
    if not listing.items:
        return _no_match(listing)
    head = tag(
        "thead",
        tag(
            "tr",
            [tag("th", name, class_=kind or None, scope="col", role="columnheader") for name, kind in COLUMNS],
            role="row",
        ),
        role="rowgroup",
    )
    bodies = []
    for title, groups in SECTIONS:
        chosen = [row for row in listing.items if row.group in groups]
        if chosen:
            heading = tag(
                "tr.grp",
                tag(
                    "th",
                    title,
                    tag(
                        "span", sum(listing.counts.get(group, 0) for group in groups) if not listing.q else len(chosen)
                    ),
                    role="rowheader",
                    colspan=7,
                    scope="rowgroup",
                ),
                role="row",
            )
            bodies.append(tag("tbody", heading, [row_of(row, view.frame.info) for row in chosen], role="rowgroup"))
    return join(tag("div.card", tag("table.jobs", head, bodies, role="table", aria_label="Jobs")), _pages(listing))


def _no_match(listing: Listing) -> Html:
    """Say that no job matches, and how many would without the choice of a phase."""
    phase_words = "" if listing.phase is Group.ALL else f" among those under “{listing.phase.value.capitalize()}”"
    said = f"No job matches “{listing.q}”{phase_words}." if listing.q else "No job here."
    without: Child = None
    if listing.q and listing.others:
        href = f"/?{urlencode({'q': listing.q})}"
        without = tag("a", f"{plural(listing.others, 'job')} in other phases", href=href, data_filter="all")
    return tag(
        "div.card.body.nomatch",
        tag("p", tag("b", said), " ", tag("span.muted", "Esc clears the filter.")),
        tag("p", tag("a.btn.sm", "Clear the filter", href="/"), " ", without),
    )


def _pages(listing: Listing) -> Child:
    """Draw links to the pages of a long list."""
    if not listing.after and not listing.before:
        return None
    chosen = {"phase": listing.phase.value, "q": listing.q}
    last = listing.before + len(listing.items)
    first = tag("a.btn", "First jobs", href=f"/?{urlencode(chosen)}") if listing.before else None
    following: Child = None
    if listing.after:
        query = urlencode({**chosen, "after": listing.after})
        following = tag("a.btn", "Next jobs", href=f"/?{query}", data_more=listing.after)
    words = f"{listing.before + 1:,} to {last:,} of {plural(listing.total, 'job')}"
    return tag("p.more", first, tag("span.muted", f" {words} "), following)


def row_of(row: JobRow, info: Info) -> Html:
    """Draw one job."""
    # A run whose record cannot be read has no page.
    name = tag("a.jn", row.run, href=f"/jobs/{row.uid}", title=row.run) if row.uid else tag("span.jd", row.run)
    facts = " · ".join(
        filter(
            None,
            (
                ", ".join(row.plugins),
                f"queue {row.queue}" if row.queue else "",
                row.mode if row.mode == "foreground" else "",
            ),
        )
    )
    count = len(row.attempts)
    marks: Child = None
    if count > 1:
        label = "attempts: " + ", ".join(attempt.outcome for attempt in row.attempts)
        marks = tag(
            "div.atts", [outcome_mark(attempt.outcome) for attempt in row.attempts[-8:]], role="img", aria_label=label
        )
    ran = _ran(row, info)
    together = row.waiting.pods if row.waiting else 0
    cells = (
        tag("td.ph-c", phase(row.phase), role="cell"),
        tag("td.j", name, tag("div.l2", facts), role="cell"),
        tag("td.pd", task_pods(row.tasks), tag("div.l2", pods_line(row.tasks, row.group, together)), role="cell"),
        tag("td.num.at", count, marks, role="cell"),
        tag("td.num.age", time_tag(row.created, ago(row.created, info.now), "ago"), role="cell"),
        tag("td.num.rn", ran, role="cell"),
        tag("td.what", _sentence(row), _last_line(row), role="cell"),
    )
    return tag(
        "tr.job",
        cells,
        id=f"job-{row.uid or row.run}",
        role="row",
        class_="bad" if row.group is Group.FAILED else None,
        data_k=row.group.value,
    )


def _ran(row: JobRow, info: Info) -> Child:
    if row.group is Group.WAITING:
        since = row.waiting.since if row.waiting and row.waiting.since else row.created
        return tag("span.muted", "waits ", time_tag(since, brief((info.now - since).total_seconds()), "waits"))
    if row.is_active and row.started:
        return time_tag(row.started, duration((info.now - row.started).total_seconds()), "ran")
    return duration(row.ran) if row.ran is not None else "–"


def pods_line(tasks: tuple[TaskPods, ...], group: Group, together: int = 0) -> Child:
    """Return `6 of 6 running`, or failures first: `3 failed · 641 running · 352 done`. `together` start at once."""
    counts: dict[PodState, int] = {}
    for task in tasks:
        for state, count in task.counts.items():
            counts[state] = counts.get(state, 0) + count
    total = sum(task.total for task in tasks)
    if group is Group.WAITING:
        gang = (
            "" if together <= 1 else ", starts all together" if together >= total else f", {together:,} start together"
        )
        return f"0 of {total:,}{gang}"
    if set(counts) <= {PodState.WAITING} and group in {Group.FAILED, Group.DONE}:
        return "no pod was created"
    running = counts.get(PodState.RUNNING, 0) + counts.get(PodState.INIT, 0)
    if total > MARKS_TO or any(counts.get(state) for state in FAILED_STATES):
        return _counted(counts, running, total)
    if counts.get(PodState.DONE) and not running:
        return f"{counts[PodState.DONE]} of {total} done"
    if counts.get(PodState.STOPPED):
        return f"{counts[PodState.STOPPED]} stopped"
    return f"{running} of {total} running"


def _counted(counts: Mapping[PodState, int], running: int, total: int) -> Html:
    failed = sum(counts.get(state, 0) for state in FAILED_STATES)
    words: list[Html] = []
    if counts.get(PodState.FIRST) and counts.get(PodState.FOLLOWED) and total <= MARKS_TO:
        words.append(join(f"{counts[PodState.FIRST]} failed first, {counts[PodState.FOLLOWED]} followed"))
    elif failed:
        words.append(tag("b.c-fail", f"{failed:,} failed"))
    rest = (
        (running, "running", None),
        (counts.get(PodState.DONE, 0), "done", "c-ok"),
        (counts.get(PodState.WAITING, 0), "waiting", None),
    )
    words += [tag("span", f"{count:,} {word}", class_=colour) for count, word, colour in rest if count]
    return join([join(" · " if index else None, word) for index, word in enumerate(words)])


def _sentence(row: JobRow) -> Html:
    text = row.damaged or (row.waiting.text if row.waiting else "") or row.text or row.message
    lone = row.last_line is None
    head, found, rest = text.partition(" failed first")
    if found and row.group in {Group.FAILED, Group.ACTIVE} and " " not in head:
        return tag("div.l1", tag("b.c-fail", head, found), rest, class_="two" if lone else None, title=text)
    if counted := re.match(r"\d[\d,]* failed[^(,;]*", text):
        return tag(
            "div.l1", tag("b.c-fail", counted[0]), text[counted.end() :], class_="two" if lone else None, title=text
        )
    head, found, rest = text.partition(":")
    if found and row.waiting is not None and row.waiting.position:
        return tag("div.l1", tag("b", head, ":"), rest, class_="two" if lone else None, title=text)
    quiet = "muted" if row.group is Group.DONE else ""
    return tag("div.l1", tag("span", text, class_=quiet or None), class_="two" if lone else None, title=text)


def _last_line(row: JobRow) -> Child:
    if row.last_line is None:
        return None
    colour = colours(row.tasks).get(row.last_line.task, "t6")
    return tag("div.l2.mono", tag("span.pre", row.last_line.pod or "–", class_=colour), row.last_line.text[:500])


def _welcome(info: Info) -> Html:
    steps = (
        (
            "Run the example: three pods, about six seconds",
            ("pumice run examples/pytorch-job.yaml",),
            "No root, no Docker, no registry, no cluster.",
        ),
        (
            "Or look at your own file first",
            ("pumice validate job.yaml", "pumice explain job.yaml"),
            "Every mistake at once, with its line; then the pods, and what each plugin adds.",
        ),
        ("Rehearse what happens when a pod dies", ("pumice simulate job.yaml",), ""),
    )
    machine = [f"{cores(info.capacity.cpu)} CPUs", f"{gib(info.capacity.memory)} memory"]
    machine += [plural(len(info.capacity.gpus), "GPU")] if info.capacity.gpus else []
    return join(
        tag("div.lhead", tag("h1", "Jobs")),
        tag(
            "div.empty",
            LOGO,
            tag(
                "div",
                tag("h2.big", "No jobs yet"),
                tag(
                    "p.muted",
                    "A job that you start in a terminal shows up here, and stays when the terminal is closed.",
                ),
            ),
            tag(
                "ol",
                [
                    tag(
                        "li",
                        tag("b", title),
                        [copyable(each) for each in commands],
                        tag("span.muted", remark) if remark else None,
                    )
                    for title, commands, remark in steps
                ],
            ),
            tag("p.muted", f"This machine: {', '.join(machine)}."),
            id="rows",
        ),
    )
