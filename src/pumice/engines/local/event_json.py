"""`pumice run --json`, and the events that are kept of every run: one object a line, with the fields that apply.

`attempt` is the job's (1, and one more with each restart by a policy); where a container is started again, it is how
often that has happened to it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.engines.local.events import (
    Ended,
    Happening,
    Moved,
    Planned,
    PodMoved,
    Printed,
    Published,
    Restarted,
    Warned,
)
from pumice.model.snapshot import ContainerEnd, ObservedPod
from pumice.reconcile.decision import JobEvent

Fields = Mapping[str, Any]
# What JSON leaves as it is, and yet many programs take for the end of a line.
_LINE_ENDS: Final = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class JsonView:
    """`write` gets whole lines, as many as happened at once."""

    write: Callable[[str], None]
    with_logs: bool = True

    def __call__(self, happening: Happening) -> None:
        moment = dt.datetime.now(dt.UTC).isoformat()  # noqa: TID251 - the clock of the run
        events = _printed(happening) if isinstance(happening, Printed) else _told(happening)
        if isinstance(happening, Printed) and not self.with_logs:
            return
        lines = [_line({"time": moment, **event}) for event in events]
        if lines:
            self.write("".join(lines))


def _line(event: Fields) -> str:
    text = msgspec.json.encode(event).decode()
    return (text if text.isascii() else text.translate(_LINE_ENDS)) + "\n"


def _printed(happening: Printed) -> Iterator[Fields]:
    for line in happening.lines:
        # The states of a progress bar are for eyes only.
        if not line.unfinished:
            whose = {"pod": line.pod, "container": line.container, "stream": line.stream}
            yield {"type": "log", **whose, "line": line.text}


def _told(happening: Happening) -> Iterator[Fields]:
    match happening:
        case Planned(job, images):
            tasks = {task.name: task.replicas for task in job.spec.tasks}
            yield _event("plan", job=job.name, tasks=tasks, minAvailable=job.spec.min_available, images=images)
        case Moved(_, status, attempt, acted):
            state = status.state
            why = {"reason": state.reason, "message": state.message, **_policy(acted)}
            yield _event("phase", phase=state.phase, attempt=attempt, **why)
        case PodMoved(pod, images):
            yield _event("pod", **_pod(pod), images=images, **_pod_end(pod))
        case Restarted(pod, end, count, _):
            told = {**_pod(pod), **_end(end), "attempt": count, "reason": end.reason or "Restarted"}
            yield _event("pod", **told)
        case Published(pod, port, address):
            yield _event("pod", pod=pod, reason="Published", port=port, address=address)
        case Warned(message):
            yield _event("warning", message=message)
        case Ended():
            yield _event("verdict", **_verdict(happening))
        case _:
            return


def _event(kind: str, **fields: object) -> Fields:
    applying = {name: value for name, value in fields.items() if value is not None and value not in ("", {}, ())}
    return {"type": kind, **applying}


def _pod(pod: ObservedPod) -> Fields:
    return {"pod": pod.short_name, "phase": str(pod.phase), "attempt": pod.retry + 1}


def _pod_end(pod: ObservedPod) -> Fields:
    """Of the container that decided how the pod ended."""
    if not pod.is_finished:
        return {}
    end = pod.first_failure or max(pod.ends, key=_finished, default=None)
    told = {} if end is None else dict(_end(end))
    # A pod that was told to end has nothing to explain.
    reason = "Deleted" if pod.is_deleting else told.get("reason") or pod.reason
    return {**told, "reason": reason}


def _end(end: ContainerEnd) -> Fields:
    ended = {"container": end.container, "code": end.exit_code, "signal": end.signal or None, "reason": end.reason}
    return {**ended, "line": end.last_line}


def _finished(end: ContainerEnd) -> float:
    return end.finished_at.timestamp() if end.finished_at is not None else 0.0


def _policy(acted: JobEvent | None) -> Fields:
    if acted is None:
        return {}
    return {"pod": acted.pod, "policy": str(acted.policy), "event": acted.event, "action": acted.action}


def _verdict(ended: Ended) -> Fields:
    return {
        "phase": ended.phase,
        "code": ended.code,
        "signal": ended.signal or None,
        "pod": ended.pod,
        "container": ended.container,
        "reason": ended.reason,
        "attempt": ended.attempt or None,
        "line": ended.last_line,
        "kept": tuple(ended.kept),
        "message": "\n".join(ended.lines),
    }
