"""The last words about a job that did not complete: at most six lines, the culprit first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.reconcile.verdict import how_it_ended

_SHOWN_FOLLOWERS = 3


@dataclass(frozen=True, slots=True)
class LastWords:
    lines: tuple[str, ...]
    pod: str = ""
    code: int = 1
    signal: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed pod, remembered even if it has been replaced since."""

    pod: ObservedPod
    end: ContainerEnd
    attempt: int


def last_words(job: Job, failures: Sequence[Failure], policy: str, next_command: str) -> LastWords:
    """`policy` is the one that acted last, with its line; the failures are those of the last run."""
    state = job.status.state
    if not failures:
        return LastWords((f"{state.phase}: {state.message or state.reason or 'no pod failed'}",), reason=state.reason)
    never = dt.datetime.max.replace(tzinfo=dt.UTC)
    ordered = sorted(failures, key=lambda failure: failure.end.finished_at or never)
    first, others = ordered[0], ordered[1:]
    took = ""
    if first.end.finished_at is not None:
        took = f" after {(first.end.finished_at - first.pod.created_at).total_seconds():.1f}s"
    tries = f" (attempt {first.attempt} of {job.spec.max_retry})"
    lines = [f"{first.pod.short_name} failed first: {how_it_ended(first.end)}{took}{tries}"]
    if first.end.last_line:
        lines.append(f"  last line     {_one_line(first.end.last_line)}")
    if others:
        lines.append(f"  then          {_followers(first, others)}")
    if policy:
        lines.append(f"  policy        {policy}")
    lines.append(f"  next          {next_command}")
    return LastWords(tuple(lines), first.pod.short_name, first.end.exit_code, first.end.signal, state.reason)


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines())


def failures_among(pods: Sequence[ObservedPod]) -> list[Failure]:
    found = []
    for pod in pods:
        end = pod.first_failure
        # One that is being deleted was told to end: it is no culprit.
        if pod.phase is PodPhase.FAILED and end is not None and not pod.is_deleting:
            found.append(Failure(pod, end, pod.retry + 1))
    return found


def _followers(first: Failure, others: Sequence[Failure]) -> str:
    told = []
    for other in others[:_SHOWN_FOLLOWERS]:
        later = ""
        if first.end.finished_at is not None and other.end.finished_at is not None:
            later = f", {(other.end.finished_at - first.end.finished_at).total_seconds():.1f}s later"
        told.append(f"{other.pod.short_name} ({how_it_ended(other.end)}{later})")
    more = len(others) - _SHOWN_FOLLOWERS
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")
