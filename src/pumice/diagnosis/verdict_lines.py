"""The verdict in words: a heading, and a row for each thing to know about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pumice.diagnosis.verdict import FailedPod, Verdict
from pumice.model.text import plural
from pumice.model.units import elapsed_text

# Rows with commands and paths, which people copy.
COPIED_ROWS: Final = frozenset(("next", "log", "logs"))
_SHOWN: Final = 3  # pods of a row that are named
# Rows that are only sometimes of use are left out beyond that.
_MOST_LINES: Final = 6


def verdict_lines(verdict: Verdict) -> tuple[str, ...]:
    """Return the lines; none if the user, who stopped the run, knows all."""
    heading = heading_lines(verdict)
    if not heading:
        return ()
    return (*heading, *(row_line(*row) for row in verdict_rows(verdict)))


def heading_lines(verdict: Verdict) -> tuple[str, ...]:
    """Return the heading: one line, but what a person or a program wrote may be more."""
    return tuple(heading_text(verdict).splitlines())


def row_line(name: str, text: str) -> str:
    return f"  {name:<13} {text}"


def lead_text(verdict: Verdict) -> str:
    """Return the beginning of the heading that names the pod; empty if it names none."""
    if not verdict.pod or verdict.stopped:
        return ""
    return f"{verdict.pod} {'ended' if verdict.left_early else 'failed'} first"


def heading_text(verdict: Verdict) -> str:
    """Return `worker-1 failed first: exit code 1 after 0.4s`; if no pod failed, why the run ended."""
    first = verdict.first
    if first is None or verdict.stopped:
        return verdict.message
    attempt = f" (attempt {verdict.attempt} of {verdict.max_attempts})" if verdict.max_attempts else ""
    if verdict.left_early:
        others = plural(verdict.peers, "other")
        return f"{lead_text(verdict)}, with exit code 0, while {others} still ran{attempt}"
    return f"{lead_text(verdict)}: {_how(first)}{attempt}"


def verdict_rows(verdict: Verdict) -> list[tuple[str, str]]:
    """Return what to know besides the heading, each with the name of its row."""
    ending = [("policy", str(verdict.policy))] if verdict.policy is not None else []
    if verdict.log:
        ending.append(("log", verdict.log))
    if verdict.next:
        ending.append(("next", verdict.next))
    most = _MOST_LINES - 1 - len(ending)
    rows = _failed_before(verdict) if verdict.stopped else _failures(verdict)
    # What the pods of a run that hung were doing, a row for each that differs.
    doing, left = list(verdict.doing), most - len(rows)
    if len(doing) > left:
        doing = [*doing[: left - 1], f"{doing[left - 1]}; and {len(doing) - left} more"] if left > 0 else []
    rows += [("was doing" if verdict.stopped else "waited for", text) for text in doing]
    explains_more = verdict.message and verdict.first is not None and not verdict.stopped
    if explains_more and len(rows) < most:
        rows.append(("why", verdict.message))
    if verdict.logs and not verdict.log:
        rows.append(("logs", verdict.logs))
    return rows + ending


def _failures(verdict: Verdict) -> list[tuple[str, str]]:
    rows = []
    if verdict.cause:
        rows.append(("cause", verdict.cause))
    elif verdict.line:
        rows.append(("last line", verdict.line))
    if verdict.followers:
        if verdict.left_early and verdict.followers[0].line:
            rows.append(("last line", f"{verdict.followers[0].pod}: {verdict.followers[0].line}"))
        rows.append(("then", _others(verdict.followers)))
    if verdict.independent:
        rows.append(("also failed", _others(verdict.independent)))
    return rows


def _failed_before(verdict: Verdict) -> list[tuple[str, str]]:
    """What had failed before the run was stopped."""
    rows, first, others = [], verdict.first, (*verdict.followers, *verdict.independent)
    if first is not None:
        then = f"; then {_others(others)}" if others else ""
        rows.append(("failed", f"{first.pod}: {_how(first)}{_said(first)}{then}"))
    if verdict.restarted:
        last, *more = verdict.restarted
        count = plural(last.restarts, "restart")
        others_too = f"; {len(more)} more restarted" if more else ""
        rows.append(("restarted", f"{last.pod}: {count}, last {last.exit}{_said(last)}{others_too}"))
    if verdict.earlier is not None:
        one = verdict.earlier
        rows.append(("before", f"attempt {one.attempt}: {one.pod} failed, {_how(one)}{_said(one)}"))
    return rows


def _how(failed: FailedPod) -> str:
    container = f" in container {failed.container}" if failed.container not in ("", failed.task) else ""
    took = "" if failed.age is None else f" after {elapsed_text(failed.age)}"
    return f"{failed.exit}{container}{took}"


def _said(failed: FailedPod) -> str:
    return f": {failed.line}" if failed.line else ""


def _others(pods: Sequence[FailedPod]) -> str:
    shown = []
    for each in pods[:_SHOWN]:
        later = ""
        if each.after is not None:
            later = f", {elapsed_text(abs(each.after))} {'later' if each.after >= 0 else 'earlier, because of it'}"
        shown.append(f"{each.pod} ({each.exit}{later})")
    more = len(pods) - _SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
