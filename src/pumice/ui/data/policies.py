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
    source, spec = history.source, history.job.spec
    rows = [
        _row(history, source, path / "policies" / number, task, policy)
        for path, task, written in (
            (SPEC, "", spec.policies),
            *((SPEC / "tasks" / position, task.name, task.policies) for position, task in enumerate(spec.tasks)),
        )
        for number, policy in enumerate(written)
    ]
    rehearse, first = "", None if history.outcome is None else history.outcome.first
    if first is not None and first.code and history.record.marks is not None:
        # The command that plays the first failure in virtual time.
        seconds = 1 if first.age is None else int(max(1.0, first.age))
        rehearse = f"pumice simulate {history.record.file} --fail {first.pod}@{seconds}s:{first.code}"
    return Policies(
        items=tuple(sorted(rows, key=lambda row: -len(row.firings))),
        budget=RetryBudget(spent=history.spent, limit=spec.max_retry, line=source.line(SPEC / "maxRetry")),
        rehearse=rehearse,
    )


def _row(history: RunHistory, source: JobSource, path: Path, task: str, policy: LifecyclePolicy) -> PolicyRow:
    fired = [each for each in history.fired if tuple(each.event.policy) == tuple(path)]
    events, codes = policy.all_events, policy.all_exit_codes
    when = " or ".join([*events, *(f"exitCode {code}" for code in codes)])
    mark = None if source.marks is None else source.marks.find(path)
    lines = () if mark is None else tuple(sorted(set(_all_lines(mark))))
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


def _all_lines(mark: Mark) -> Iterator[int]:
    """Yield the lines of a value in the file: those of its fields, too."""
    yield mark[0]
    children = mark[2]
    for each in children.values() if isinstance(children, dict) else children or ():
        yield from _all_lines(each)


def file(history: RunHistory, document: Manifest | None = None) -> File:
    """Return the document of the Job as it was submitted; if it is too long to be kept, the Job written again.

    `document` is the Job as it is stored, if that says more than the record.
    """
    record, source, marks = history.record, history.source, dict[int, str]()
    if document is not None:
        lines = tuple(yaml_of(document).splitlines())
        return File(name=f"{record.name}.yaml", lines=lines, as_submitted=False, stored=True)
    name = f"{record.name}.yaml" if record.marks is None else record.file
    if not source.text:
        kept = {key: value for key, value in record.job.get("metadata", {}).items() if key not in _NOT_WRITTEN}
        text = yaml_of({**record.job, "metadata": kept})
        return File(name=name, lines=tuple(text.splitlines()), as_submitted=False)
    found = policies(history)
    if found.budget is not None and found.budget.spent and found.budget.line is not None:
        marks[found.budget.line] = "budget"
    for row in found.items:
        marks |= dict.fromkeys(row.lines, "fired") if row.firings else {}
    # With the lines before it, if it is part of a file.
    text = "\n" * (source.first - 1) + source.text
    return File(name=name, lines=tuple(text.splitlines()), as_submitted=True, marks=marks)


def yaml_of(value: object) -> str:
    out = io.StringIO()
    write_yaml([value], out)
    return out.getvalue()
