"""The last words about a job that did not complete: at most six lines, the culprit first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.vocabulary import Event
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.verdict import POD_FAILED, how_it_ended

START_ERROR = "StartError"
# Then the words are ours, and not the last that the container has printed.
_OUR_WORDS = (
    START_ERROR,
    "SandboxError",
    "StartupProbeFailed",
    "LivenessProbeFailed",
    "PostStartHookError",
    "DeadlineExceeded",
)
_SHOWN_FOLLOWERS = 3
# Longer ones are cut: the log file has them in full.
_LONGEST_LINE = 300


@dataclass(frozen=True, slots=True)
class LastWords:
    lines: tuple[str, ...]
    pod: str = ""
    code: int = 1
    end: ContainerEnd | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """What the reader needs beside the facts."""

    next_command: str
    policy: str = ""  # the one that acted last, with its line
    cause: str = ""  # says more than the last line, if not empty


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed pod, remembered even if it has been removed since."""

    pod: ObservedPod
    end: ContainerEnd

    @property
    def attempt(self) -> int:
        return self.pod.retry + 1


@dataclass(slots=True)
class Failures:
    """Of the pods that are there, or were the last of their name. One that was made anew is forgiven."""

    _known: dict[str, Failure] = field(default_factory=dict)
    # Pods whose containers fail and are started again: where no pod has failed, a policy may have had enough of them.
    _restarted: dict[str, Failure] = field(default_factory=dict)
    _version: int = 0

    def take(self, pod: ObservedPod) -> None:
        if pod.version > self._version:
            self._version = pod.version
            self._known.clear()
            self._restarted.clear()
        known = self._known.get(pod.name)
        if known is not None and known.pod.uid != pod.uid:
            del self._known[pod.name]
        end = pod.first_failure
        # One that is being deleted was told to end: it is no culprit.
        if pod.phase is PodPhase.FAILED and end is not None and not pod.is_deleting:
            self._known.setdefault(pod.name, Failure(pod, end))
        if pod.phase is PodPhase.SUCCEEDED:
            self._restarted.pop(pod.name, None)
        elif end is not None and pod.restarts and not pod.is_deleting:
            self._restarted[pod.name] = Failure(pod, end)

    def in_order(self) -> list[Failure]:
        never = dt.datetime.max.replace(tzinfo=dt.UTC)
        found = (self._known or self._restarted).values()
        return sorted(found, key=lambda each: (each.end.finished_at or never, each.pod.task, each.pod.index))


def last_words(job: Job, failures: Sequence[Failure], advice: Advice) -> LastWords:
    """The failures are in order."""
    ending = [row("policy", advice.policy)] if advice.policy else []
    ending.append(row("next", advice.next_command))
    state = job.status.state
    why = state.message.partition(";")[0] or state.reason
    if not failures:
        return LastWords((f"{job.name} {state.phase}: {why or 'no pod failed'}", *ending))
    first, others = failures[0], failures[1:]
    lines = [f"{first.pod.short_name} failed first: {_how(first)} (attempt {first.attempt} of {job.spec.max_retry})"]
    if first.end.last_line and not advice.cause:
        lines.append(row("cause" if first.end.reason in _OUR_WORDS else "last line", one_line(first.end.last_line)))
    if advice.cause:
        lines.append(row("cause", advice.cause))
    if others:
        lines.append(row("then", _followers(first, others)))
    # What the first line says already is not said again.
    if why and state.reason not in (POD_FAILED, first.end.reason) and "failed first" not in why:
        lines.append(row("why", why))
    return LastWords((*lines, *ending), first.pod.short_name, first.end.exit_code, first.end, first.attempt)


def one_line(text: str) -> str:
    joined = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    return joined if len(joined) <= _LONGEST_LINE else joined[: _LONGEST_LINE - 3] + "..."


def row(name: str, text: str) -> str:
    return f"  {name:<13} {text}"


def _how(failure: Failure) -> str:
    end, pod = failure.end, failure.pod
    container = f" in container {end.container}" if end.container not in ("", pod.task) else ""
    took = ""
    if end.finished_at is not None:
        took = f" after {(end.finished_at - pod.created_at).total_seconds():.1f}s"
    return f"{how_it_ended(end)}{container}{took}"


def _followers(first: Failure, others: Sequence[Failure]) -> str:
    told = []
    for other in others[:_SHOWN_FOLLOWERS]:
        later = ""
        if first.end.finished_at is not None and other.end.finished_at is not None:
            later = f", {(other.end.finished_at - first.end.finished_at).total_seconds():.1f}s later"
        told.append(f"{other.pod.short_name} ({how_it_ended(other.end)}{later})")
    more = len(others) - _SHOWN_FOLLOWERS
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def policy_text(event: JobEvent, locate: Callable[[str], str], *, who: bool = True) -> str:
    """`master-0 succeeded: TaskCompleted -> CompleteJob (tasks[0].policies[0], job.yaml:21)`."""
    path, name = str(event.policy), event.event
    how = "succeeded: " if name == Event.TASK_COMPLETED else "failed: " if "Failed" in name else ""
    place = ", ".join(filter(None, (path.removeprefix("spec."), locate(path))))
    text = f"{name} -> {event.action} ({place})"
    return f"{event.pod} {how}{text}".lstrip() if who else text
