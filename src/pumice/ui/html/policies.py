"""Draws events, policies with each time they fired, and the file as it was submitted."""

from __future__ import annotations

from typing import Final

from pumice.ui.detail_values import Event, Events, File, Policies, PolicyRow
from pumice.ui.html.frame import card, choose_rows, copyable
from pumice.ui.html.marks import icon
from pumice.ui.html.text import Child, Html, clock, file_name, tag, time_tag
from pumice.ui.values import Job

PIPS_TO: Final = 12
WARNING: Final = "Warning"
EVENT_COLUMNS: Final = (
    ("Time", "tm"),
    ("Kind", "kd sr-th"),
    ("Of", "of"),
    ("Reason", "rs"),
    ("Message", "msgc"),
    ("Count", "num ct"),
)


def events_card(job: Job, events: Events) -> Html:
    """Draw events, the newest first; a pod that failed first stands out."""
    if not events.items:
        return card("Events", tag("div.body", tag("p.muted", "Nothing has happened yet.")), id="events")
    first = {(attempt.number, attempt.first) for attempt in job.attempts if attempt.first}
    head = tag("thead", tag("tr", [tag("th", name, class_=kind, scope="col") for name, kind in EVENT_COLUMNS]))
    rows = [_event(event, is_first=(event.attempt, event.pod) in first) for event in events.items]
    table = tag("table.ev.evs", head, tag("tbody", rows))
    more = tag("p.foot", tag("a", "Earlier events", href=f"?tab=events&after={events.after}")) if events.after else None
    region = tag("div.scroll", table, tabindex=0, role="region", aria_label="Events")
    warnings = sum(event.type == WARNING for event in events.items)
    of_job = sum(not event.pod for event in events.items)
    counts = (("all", len(events.items)), ("warnings", warnings), ("of the job", of_job))
    choice = choose_rows(counts, "Events")
    return card("Events", region, more, sub="newest first, kept for every attempt", right=choice, id="events")


def _event(event: Event, *, is_first: bool) -> Html:
    warning = event.type == WARNING
    kind: Child = tag("span.faint", "·", aria_hidden="true")
    if warning and is_first:
        kind = tag("span.st", tag("span.c-fail", icon("p-fail", "p")), "first")
    elif warning:
        kind = tag("span.st", tag("span.c-warn.up", "▲", aria_hidden="true"), "warning")
    several = f"{event.pods[0]} and {len(event.pods) - 1} more" if len(event.pods) > 1 else ""
    groups = " ".join(filter(None, ("warnings" if warning else "", "" if event.pod else "of-the-job")))
    return tag(
        "tr",
        tag("td.tm.nowrap", time_tag(event.time, clock(event.time))),
        tag("td.kd", kind),
        tag("td.of.o", several or event.pod or "job"),
        tag("td.rs", event.reason),
        tag("td.msgc", event.message),
        tag("td.num.ct", event.count if event.count > 1 else ""),
        id=f"event-{event.seq}",
        data_group=groups,
    )


def policies_panel(job: Job, policies: Policies, file: File | None) -> Html:
    """Draw the tab."""
    budget: Child = None
    if policies.budget is not None:
        spent, limit = policies.budget.spent, policies.budget.limit
        pips = (
            tag(
                "span.pips",
                [tag("i", class_=None if index < spent else "o") for index in range(limit)],
                aria_hidden="true",
            )
            if limit <= PIPS_TO
            else None
        )
        where = f"maxRetry, line {policies.budget.line}" if policies.budget.line else "maxRetry"
        budget = tag(
            "span.budget", "retry budget ", pips, f" {spent} of {limit} spent ", tag("span.muted", f"({where})")
        )
    name = file.name if file else job.file
    rows: Child = [_policy(row, name) for row in policies.items] or tag(
        "div.body", tag("p.muted", "This job has no policies: a failed pod fails the job.")
    )
    left = [card("Policies", rows, sub="those that fired first", right=budget, id="policies")]
    if policies.rehearse:
        words = tag(
            "p.muted",
            "Plays this failure against the file in virtual time, in milliseconds, before the machine is spent on it.",
        )
        left.append(card("Rehearse a change", tag("div.body", words, copyable(policies.rehearse))))
    return tag("div.polw", tag("div.stack", left), _file(file) if file else None)


def _policy(row: PolicyRow, file: str) -> Html:
    count = len(row.firings)
    fired = "fired once" if count == 1 else f"fired {count} times" if count else "not fired"
    mark = tag(
        "span",
        icon("g-restarting" if count else "g-pending"),
        class_="c-wait" if not count else "c-fail" if count > 1 else "c-warn",
    )
    where: Child = tag("a", f"{file_name(file)}:{row.line}", href=f"#line-{row.line}") if row.line else None
    about = " ".join(filter(None, (row.path, f"after {row.timeout}" if row.timeout else "", row.task)))
    firings = [tag("li", tag("b", clock(each.time)), f" {each.text}") for each in row.firings]
    return tag(
        "div.pol",
        mark,
        tag("div", tag("span.rule", f"{row.when} → {row.action}"), " ", tag("span.muted", about)),
        tag("div.nowrap", tag("span.tag", fired, class_="fail" if count > 1 else None), " ", where),
        tag("ol", firings or tag("li", f"did not fire: {row.why_not}" if row.why_not else "did not fire")),
        class_=None if count else "no",
    )


def _file(file: File) -> Html:
    kinds = {"fired": "hl", "budget": "h2"}
    lines = [
        tag("span", line or " ", class_=kinds.get(file.marks.get(index, "")), id=f"line-{index}")
        for index, line in enumerate(file.lines, 1)
    ]
    sub = "as it was submitted" if file.as_submitted else "written again from the Job: the file was not kept"
    copy = tag("button.btn.sm.js", "Copy", type="button", data_copy_from="file-text", aria_label="Copy the file")
    body = tag(
        "div.yaml",
        lines,
        tabindex=0,
        id="file-text",
        role="region",
        aria_label=file.name or "Job",
        class_=None if file.as_submitted else "again",
    )
    return card(file_name(file.name) or "Job", body, sub=sub, right=copy, id="file")
