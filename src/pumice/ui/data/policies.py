"""The policies of a job with each firing, the retry budget, and the file with the lines of both."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from pumice.model.findings import SPEC, Path
from pumice.model.job import LifecyclePolicy, Manifest
from pumice.model.vocabulary import SERVER_FIELDS
from pumice.store.history.run_history import Fired, RunHistory
from pumice.store.job_source import JobSource
from pumice.ui.data.verdict import line_of
from pumice.ui.detail_values import File, Firing, Policies, PolicyRow
from pumice.ui.values import RetryBudget
from pumice.yaml.marks import Mark
from pumice.yaml.writer import write_yaml

_NOT_WRITTEN: Final = (*SERVER_FIELDS, "namespace")
_WHY_NOT: Final = {
    "PodFailed": "no pod failed",
    "PodEvicted": "no pod was evicted",
    "PodPending": "no pod waited that long",
    "PodRunning": "no pod ran",
    "TaskCompleted": "the task did not complete",
    "TaskFailed": "the task did not fail",
    "JobUpdated": "the job was not updated",
    "Unknown": "the job was never in an unknown state",
}


def policies(history: RunHistory) -> Policies:
    """Return the policies of the job and of its tasks, those that fired first."""
    source = history.source
    rows = [_row(history, source, *each) for each in _all(history)]
    spec = history.job.spec
    return Policies(
        items=tuple(sorted(rows, key=lambda row: -len(row.firings))),
        budget=RetryBudget(spent=history.spent, limit=spec.max_retry, line=line_of(source, SPEC / "maxRetry")),
        rehearse=_rehearse(history),
    )


def _all(history: RunHistory) -> Iterator[tuple[Path, str, LifecyclePolicy]]:
    for number, policy in enumerate(history.job.spec.policies):
        yield SPEC / "policies" / number, "", policy
    for position, task in enumerate(history.job.spec.tasks):
        for number, policy in enumerate(task.policies):
            yield SPEC / "tasks" / position / "policies" / number, task.name, policy


def _row(history: RunHistory, source: JobSource, path: Path, task: str, policy: LifecyclePolicy) -> PolicyRow:
    fired = [each for each in history.fired if tuple(each.event.policy) == tuple(path)]
    events, codes = policy.all_events, policy.all_exit_codes
    when = " or ".join([*events, *(f"exitCode {code}" for code in codes)])
    lines = _lines(source, path)
    why = ""
    if not fired:
        unless = [_WHY_NOT.get(event, f"{event} did not happen") for event in events]
        unless += [f"no container ended with {code}" for code in codes]
        earlier = any(each.event.event in events for each in history.fired)
        why = "another policy acted first" if earlier else "; ".join(unless)
    return PolicyRow(
        path=str(path).removeprefix("spec.") if task else str(path),
        line=lines[0] if lines else None,
        lines=lines,
        when=when,
        action=policy.action,
        task=task,
        timeout=policy.timeout,
        firings=tuple(_firing(history, each) for each in fired),
        why_not=why,
    )


def _firing(history: RunHistory, fired: Fired) -> Firing:
    limit = history.job.spec.max_retry
    following = next((each for each in history.attempts if each.number > fired.attempt), None)
    ended = history.job.status.state.phase
    if following is not None:
        then = f"attempt {following.number} began, {fired.spent} of {limit} retries spent"
    elif fired.spent >= limit > 0 and ended == "Failed":
        then = f"{fired.spent} of {limit} spent, so the job is {ended} instead"
    else:
        then = fired.event.action
    return Firing(
        time=fired.time,
        attempt=fired.attempt,
        pod=fired.event.pod,
        text=": ".join(filter(None, (fired.event.pod, then))),
        spent=fired.spent,
    )


def _lines(source: JobSource, path: Path) -> tuple[int, ...]:
    """Return the lines of a policy in the file: those of its fields."""
    mark = None if source.marks is None else source.marks.find(path)
    return () if mark is None else tuple(sorted(set(_all_lines(mark))))


def _all_lines(mark: Mark) -> Iterator[int]:
    yield mark[0]
    children = mark[2]
    for each in children.values() if isinstance(children, dict) else children or ():
        yield from _all_lines(each)


def _rehearse(history: RunHistory) -> str:
    """Return the command that plays the first failure in virtual time."""
    first = None if history.outcome is None else history.outcome.first
    if first is None or not first.code or history.record.marks is None:
        return ""
    seconds = 1.0 if first.age is None else max(1.0, first.age)
    return f"pumice simulate {history.record.file} --fail {first.pod}@{int(seconds)}s:{first.code}"


def file(history: RunHistory, document: Manifest | None = None) -> File:
    """Return the document of the Job as it was submitted; if it is too long to be kept, the Job written again.

    `document` is the Job as it is stored, if that says more than the record.
    """
    if document is not None:
        return File(name=f"{history.record.name}.yaml", lines=tuple(_yaml(document)), as_submitted=False, stored=True)
    text, as_submitted = _text(history)
    marks: dict[int, str] = {}
    if as_submitted:
        found = policies(history)
        if found.budget is not None and found.budget.spent and found.budget.line is not None:
            marks[found.budget.line] = "budget"
        for row in found.items:
            marks |= dict.fromkeys(row.lines, "fired") if row.firings else {}
    name = f"{history.record.name}.yaml" if history.record.marks is None else history.record.file
    return File(name=name, lines=tuple(text.splitlines()), as_submitted=as_submitted, marks=marks)


def _text(history: RunHistory) -> tuple[str, bool]:
    """Return the text, and whether it is as it was submitted: with the lines before it, if it is part of a file."""
    source = history.source
    if source.text:
        return "\n" * (source.first - 1) + source.text, True
    metadata = history.record.job.get("metadata", {})
    kept = {key: value for key, value in metadata.items() if key not in _NOT_WRITTEN}
    return "\n".join(_yaml({**history.record.job, "metadata": kept})), False


def _yaml(document: Manifest) -> list[str]:
    out = io.StringIO()
    write_yaml([document], out)
    return out.getvalue().splitlines()
