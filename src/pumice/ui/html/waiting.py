"""Draws why a job waits: what is short, which jobs hold it, what would start it now, and the queue."""

from __future__ import annotations

import datetime as dt

from pumice.ui.html.frame import card, copyable
from pumice.ui.html.marks import phase
from pumice.ui.html.text import Child, Html, join, plural, tag
from pumice.ui.values import Holder, Job, QueueEntry, Waiting


def waiting_panel(job: Job, waiting: Waiting, logs: Child) -> Html:
    """Draw the overview of a job that waits."""
    cards = [_short(waiting), _holders(waiting), _hints(job, waiting)]
    return join(tag("div.three", cards), tag("div.cols", _queue(job, waiting), logs))


def _short(waiting: Waiting) -> Html:
    if not waiting.short:
        return card("What is short", tag("div.body", tag("p", waiting.text)))
    head = tag(
        "tr",
        tag("th", tag("span.sr", "resource")),
        [tag("th.num", name, scope="col") for name in ("wanted", "free", "short")],
    )
    rows = [
        tag(
            "tr",
            tag("th", each.resource, scope="row"),
            tag("td.num", each.wanted),
            tag("td.num", each.free),
            tag("td.num", each.short or "–", class_="short" if each.short else "muted"),
        )
        for each in waiting.short
    ]
    sub = f"for {plural(waiting.pods, 'pod')} at once" if waiting.pods > 1 else None
    return card("What is short", tag("table.why", tag("thead", head), tag("tbody", rows)), sub=sub)


def until(moment: dt.datetime | None) -> str:
    """Return `, until ~14:20`, or nothing."""
    return f", until ~{moment.astimezone():%H:%M}" if moment else ""


def _holders(waiting: Waiting) -> Html:
    every: dict[str, list[tuple[str, Holder]]] = {}
    for shortage in waiting.short:
        for holder in shortage.held_by:
            if shortage.short:
                every.setdefault(holder.job, []).append((shortage.resource, holder))
    paragraphs = []
    for name, held in every.items():
        holder = held[0][1]
        words = " and ".join(f"{each.amount}" for _, each in held)
        reason = f": its {holder.because}" if holder.because else ""
        link: Child = tag("a", name, href=f"/jobs/{holder.uid}") if holder.uid else tag("b", name)
        paragraphs.append(
            tag(
                "p",
                link,
                " ",
                phase(holder.phase) if holder.phase else None,
                f" holds {words}{until(holder.until)}{reason}.",
            )
        )
    if waiting.behind:
        paragraphs.append(tag("p", "Its turn comes after ", tag("b", waiting.behind), "."))
    if waiting.drains_at:
        paragraphs.append(tag("p.muted", f"From {waiting.drains_at.astimezone():%H:%M} on, no later job passes it."))
    return card("Held by", tag("div.body", paragraphs or tag("p.muted", "No job of yours holds what it needs.")))


def _hints(job: Job, waiting: Waiting) -> Html:
    parts: list[Html] = []
    for hint in waiting.hints:
        parts.append(tag("p", hint.text))
        if hint.command:
            parts.append(copyable(hint.command))
    if not parts:
        parts.append(tag("p.muted", "Nothing to change: it starts when there is room."))
    if job.min_available > 1 and job.min_available_line and job.file:
        where = tag("a", f"line {job.min_available_line}", href="?tab=policies")
        parts.append(
            tag(
                "p",
                "Or lower ",
                tag("code", "minAvailable"),
                " (",
                where,
                "): the other pods start as room comes free.",
            )
        )
    return card("What would start it now", tag("div.body", parts))


def _queue(job: Job, waiting: Waiting) -> Html:
    rows = [_entry(entry) for entry in waiting.queue]
    title = f"Queue {job.queue}" if job.queue else "Queue"
    table = tag("table.ev", tag("tbody", rows)) if rows else tag("div.body", tag("p.muted", "No other job waits."))
    return card(title, table, sub=plural(len(rows), "job") if rows else None)


def _entry(entry: QueueEntry) -> Html:
    name: Child = (
        join(tag("b", entry.job), " (this job)") if entry.is_this else tag("a", entry.job, href=f"/jobs/{entry.uid}")
    )
    return tag(
        "tr",
        tag(
            "td.num", entry.position if entry.position is not None else "–", class_=None if entry.position else "muted"
        ),
        tag("td", phase(entry.phase)),
        tag("td", name),
        tag("td", entry.needs + until(entry.until), class_=None if entry.is_this else "muted"),
        class_="this" if entry.is_this else None,
    )
