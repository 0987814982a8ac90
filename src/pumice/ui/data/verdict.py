"""The verdict for the page: why a run ended, or what failed so far."""

from __future__ import annotations

from typing import Final

from pumice.engines.local.outcome import Failure
from pumice.engines.local.runs.job_source import JobSource
from pumice.engines.local.runs.run_record import RunStatus
from pumice.engines.local.verdict import one_line
from pumice.model.duration import elapsed_text
from pumice.model.findings import Path
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.verdict import OOM_KILLED, how_it_ended
from pumice.ui.data.history import RunHistory
from pumice.ui.data.states import AttemptStates, attempt_states
from pumice.ui.values import Follower, PolicyPosition, Verdict

_NEXT: Final = "  next"
_CAUSE: Final = "  cause"
_MOST_FOLLOWERS: Final = 64


def verdict(history: RunHistory, status: RunStatus, states: AttemptStates) -> Verdict | None:
    """Return the verdict; None if nothing failed, and the run has no verdict."""
    first = _first(history, states)
    lines = status.verdict
    if first is None:
        return Verdict(text=lines[0], next=row_of(lines, _NEXT), lines=lines) if lines else None
    end, pod = first.end, first.pod
    took = None if end.finished_at is None else (end.finished_at - pod.created_at).total_seconds()
    how = how_it_ended(end)
    after = "" if took is None else f" after {elapsed_text(took)}"
    others = [each for each in states.failures if each.pod.uid != pod.uid]
    acted = history.outcome.policy if history.outcome is not None else None
    if acted is None and history.fired:
        acted = history.fired[-1].event
    source = history.run.source
    return Verdict(
        text=lines[0] if lines else f"{pod.short_name} failed first: {how}{after}",
        pod=pod.short_name,
        container=end.container,
        exit=how,
        exit_code=end.exit_code,
        signal=end.signal,
        reason=end.reason,
        time=end.finished_at,
        after=took,
        cause=row_of(lines, _CAUSE) if end.reason == OOM_KILLED else "",
        last_line=one_line(end.last_line),
        followers=tuple(
            Follower(pod=each.pod.short_name, exit=how_it_ended(each.end), delay=states.delay(each))
            for each in others[:_MOST_FOLLOWERS]
        ),
        before=_before(history, first),
        policy=None if acted is None else policy_position(acted, source),
        next=row_of(lines, _NEXT) or f"pumice logs {history.run.ref}/{pod.short_name} --tail 30",
        lines=lines,
    )


def policy_position(acted: JobEvent, source: JobSource) -> PolicyPosition:
    position = source(acted.policy) if acted.policy else None
    return PolicyPosition(
        text=f"{acted.event} -> {acted.action}",
        path=str(acted.policy),
        file="" if position is None else position.file,
        line=None if position is None else position.line,
    )


def line_of(source: JobSource, path: Path) -> int | None:
    """Return the line of a field, if the file has it."""
    if source.marks is None:
        return None
    own, parent = source.marks.position(path), source.marks.position(Path(path[:-1]))
    return own[0] if own != parent else None


def row_of(lines: tuple[str, ...], name: str) -> str:
    """Return the text of a row of the verdict, such as `  next          pumice logs`."""
    return next((each.removeprefix(name).strip() for each in lines if each.startswith(f"{name} ")), "")


def _first(history: RunHistory, states: AttemptStates) -> Failure | None:
    if history.outcome is not None and history.outcome.first is not None:
        return history.outcome.first
    return states.failures[0] if states.failures else None


def _before(history: RunHistory, first: Failure) -> str:
    """Say whether earlier attempts failed the same way."""
    earlier = []
    for each in history.attempts:
        if each.number < first.attempt:
            failures = attempt_states(history, each.number, over=True).failures
            earlier += [failures[0]] if failures else []
    if not earlier:
        return ""
    pods = {each.pod.short_name for each in (*earlier, first)}
    said = {_normalised(each.end.last_line) for each in (*earlier, first)}
    number = len(earlier) + 1
    if len(pods) == 1:
        same = ", with the same last line" if len(said) == 1 and first.end.last_line else ""
        return f"{first.pod.short_name} failed first in all {number} attempts{same}"
    parts = [f"attempt {each.attempt}: {each.pod.short_name}, {how_it_ended(each.end)}" for each in earlier[-3:]]
    return "; ".join(parts)


def _normalised(line: str) -> str:
    """Two lines that differ only in numbers say the same."""
    return "".join("0" if letter.isdigit() else letter for letter in line)
