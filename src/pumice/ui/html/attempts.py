"""Draws the attempts of a job."""

from __future__ import annotations

from pumice.ui.html.frame import card
from pumice.ui.html.marks import icon
from pumice.ui.html.text import Child, Html, clock, duration, tag
from pumice.ui.values import Attempt, Job


def attempts_card(job: Job) -> Html:
    """Draw the attempts, the last first."""
    rows = [_attempt(attempt) for attempt in reversed(job.attempts)]
    head = tag(
        "tr",
        tag("th.num", "#", scope="col"),
        [
            tag("th", name, class_=kind or None, scope="col")
            for name, kind in (("Began", ""), ("Ran", "num"), ("Failed first", ""), ("Exit", "num x"), ("Then", ""))
        ],
    )
    table = tag("table.ev", tag("thead", head), tag("tbody", rows))
    return card(
        "Attempts",
        tag("div.scroll", table, tabindex=0, role="region", aria_label="Attempts"),
        sub="each kept with its logs, events and measurements",
        id="attempts",
    )


def _attempt(attempt: Attempt) -> Html:
    ran = duration((attempt.end - attempt.start).total_seconds()) if attempt.end else "–"
    failed: Child = attempt.outcome
    if attempt.first:
        failed = tag("span.st", tag("span.c-fail", icon("p-fail", "p")), attempt.first)
    code = str(attempt.exit_code) if attempt.exit_code is not None else "–"
    return tag(
        "tr",
        tag("td.num", tag("a", attempt.number, href=f"?attempt={attempt.number}", data_attempt=attempt.number)),
        tag("td.nowrap", tag("time", clock(attempt.start), datetime=attempt.start.isoformat())),
        tag("td.num", ran),
        tag("td.nowrap", failed),
        tag("td.num.x", code),
        tag("td.muted", attempt.then.replace("->", "→") or ("" if attempt.end else "goes on")),
    )
