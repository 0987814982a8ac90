"""The verdict on the page: that of the store, or what failed so far; and what earlier attempts did."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pumice.client.observer import Observed
from pumice.diagnosis.pod_ends import how_it_ended, one_line
from pumice.diagnosis.verdict import Verdict
from pumice.diagnosis.verdict_lines import heading_text, verdict_lines
from pumice.model.findings import Path
from pumice.reconcile.consequences import acted_policy
from pumice.store.history.run_history import RunHistory
from pumice.store.job_source import JobSource
from pumice.ui.data.states import AttemptStates, attempt_states

_MOST_FOLLOWERS: Final = 64


def verdict(seen: Observed, states: AttemptStates) -> Verdict | None:
    """Return the verdict; None if nothing failed, and the run has no verdict."""
    history, status = seen.history, seen.status
    found = status.verdict or states.verdict
    if found is None or not heading_text(found):
        return None
    if status.verdict is None:
        # The run has not ended: its verdict has neither the policy nor a command yet.
        if history.fired:
            acted = history.fired[-1].event
            found = replace(found, policy=acted_policy(acted, history.source(acted.policy)))
        words = ("pumice logs", f"{history.record.ref}/{found.pod}", seen.flags, "--tail 30")
        found = replace(found, next=" ".join(filter(None, words))) if found.pod else found
    shown = replace(found, followers=found.followers[:_MOST_FOLLOWERS], independent=found.independent[:_MOST_FOLLOWERS])
    return replace(shown, text="\n".join(verdict_lines(found)))


def line_of(source: JobSource, path: Path) -> int | None:
    """Return the line of a field, if the file has it."""
    mark = None if source.marks is None else source.marks.find(path)
    return None if mark is None else mark[0]


def earlier_attempts(history: RunHistory, found: Verdict | None) -> str:
    """Say whether earlier attempts failed the same way."""
    if found is None or found.first is None:
        return ""
    first, earlier = found.first, []
    for each in history.attempts:
        if each.number < (found.attempt or history.attempt):
            failures = attempt_states(history, each.number, over=True).failures
            earlier += [failures[0]] if failures else []
    if not earlier:
        return ""
    pods = {first.pod, *(each.pod.short_name for each in earlier)}
    said = {_normalised(line) for line in (first.line, *(one_line(each.end.last_line) for each in earlier))}
    if len(pods) == 1:
        same = ", with the same last line" if len(said) == 1 and first.line else ""
        return f"{first.pod} failed first in all {len(earlier) + 1} attempts{same}"
    parts = [f"attempt {each.attempt}: {each.pod.short_name}, {how_it_ended(each.end)}" for each in earlier[-3:]]
    return "; ".join(parts)


def _normalised(line: str) -> str:
    """Two lines that differ only in numbers say the same."""
    return "".join("0" if letter.isdigit() else letter for letter in line)
