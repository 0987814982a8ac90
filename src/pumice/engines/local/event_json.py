"""The events of a run as JSON, one object per line: `pumice run --json`, and events.jsonl in the run directory.

`attempt` is the job's (1, and one more with each restart by a policy); where a container restarts, it is its number of
restarts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.engines.local.events import (
    ContainerRestarted,
    LogOutput,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    RunEvent,
    RunPlanned,
    RunWaits,
    WarningIssued,
)
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.why import sentence
from pumice.model.snapshot import ContainerEnd, ObservedPod
from pumice.model.vocabulary import Phase
from pumice.reconcile.decision import JobEvent

Fields = Mapping[str, Any]
# JSON allows these characters in a string, but many programs take them for the end of a line.
_LINE_ENDS: Final = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


class JsonView(Struct, frozen=True):
    """`write` gets whole lines; `explain` returns the verdict in words."""

    write: Callable[[str], None]
    explain: Callable[[Outcome], Sequence[str]]
    with_logs: bool = True

    def __call__(self, event: RunEvent) -> None:
        moment = dt.datetime.now(dt.UTC).isoformat()  # noqa: TID251 - the clock of the run
        if isinstance(event, LogOutput):
            # A progress bar is written once, when it has ended.
            found = [
                {"type": "log", "pod": line.pod, "container": line.container, "stream": line.stream, "line": line.text}
                for line in event.lines
                if self.with_logs and not line.unfinished
            ]
        else:
            fields = self.fields(event)
            found = [fields] if fields else []
        if found:
            self.write("".join(json_line({"time": moment, **fields}) for fields in found))

    def fields(self, event: RunEvent) -> dict[str, Any]:
        """Return what is written of an event; nothing for events that are not for users."""
        return {name: value for name, value in self._fields(event).items() if value not in (None, "", {}, ())}

    def _fields(self, event: RunEvent) -> Fields:
        match event:
            case RunPlanned(job, images, accesses, notes, name, directory, note):
                tasks = {task.name: task.replicas for task in job.spec.tasks}
                available = job.spec.min_available
                run = {"type": "plan", "run": name, "directory": directory, "job": job.name}
                plan = {**run, "tasks": tasks, "minAvailable": available, "images": images, "note": note}
                paths = [{"path": str(each.path), "realPath": str(each.real), "mode": each.mode} for each in accesses]
                return {**plan, **({"hostPaths": paths} if paths else {}), **({"notes": list(notes)} if notes else {})}
            case PhaseChanged(_, status, attempt, acted):
                state = status.state
                # The Command that stops a run is ours; users know nothing of it.
                message = "" if state.reason == "Command" else state.message
                why = {"reason": state.reason, "message": message, **_policy(acted)}
                return {"type": "phase", "phase": state.phase, "attempt": attempt, **why}
            case RunWaits(why):
                return {"type": "phase", "phase": Phase.PENDING, "reason": why.code, "message": sentence(why)}
            case PodChanged(pod, images, follows, gpus):
                return {"type": "pod", **_pod(pod), "images": images, "gpus": gpus, **_pod_end(pod), "message": follows}
            case PodKilled(pod_name, flag):
                return {"type": "pod", "pod": pod_name, "reason": "Killed", "message": f"killed by {flag}"}
            case ContainerRestarted(pod, end, count, _):
                restart = {"attempt": count, "reason": end.reason or "Restarted"}
                return {"type": "pod", **_pod(pod), **_end(end), **restart}
            case PortPublished(pod_name, port, address):
                return {"type": "pod", "pod": pod_name, "reason": "Published", "port": port, "address": address}
            case WarningIssued(message):
                return {"type": "warning", "message": message}
            case Outcome():
                return {"type": "verdict", **_verdict(event), "message": "\n".join(self.explain(event))}
            case _:
                return {}


def json_line(fields: Fields) -> str:
    text = msgspec.json.encode(fields).decode()
    return (text if text.isascii() else text.translate(_LINE_ENDS)) + "\n"


def _pod(pod: ObservedPod) -> Fields:
    return {"pod": pod.short_name, "phase": str(pod.phase), "attempt": pod.retry + 1}


def _pod_end(pod: ObservedPod) -> Fields:
    """Of the container that decided how the pod ended."""
    if not pod.is_finished:
        return {}
    end = pod.first_failure or max(pod.ends, key=_finished, default=None)
    fields = {} if end is None else dict(_end(end))
    return {**fields, "reason": "Deleted" if pod.is_deleting else fields.get("reason") or pod.reason}


def _end(end: ContainerEnd) -> Fields:
    ended = {"container": end.container, "code": end.exit_code, "signal": end.signal or None, "reason": end.reason}
    return {**ended, "line": end.last_line}


def _finished(end: ContainerEnd) -> float:
    return end.finished_at.timestamp() if end.finished_at is not None else 0.0


def _policy(acted: JobEvent | None) -> Fields:
    if acted is None:
        return {}
    return {"pod": acted.pod, "policy": str(acted.policy), "event": acted.event, "action": acted.action}


def _verdict(outcome: Outcome) -> Fields:
    first = outcome.first
    failure = {} if first is None else {**_end(first.end), "pod": first.pod.short_name}
    kept = tuple(outcome.kept)
    disk = outcome.disk
    used = {"claims": disk.claims, "emptyDir": disk.volumes, "layers": disk.layers} if disk.total else {}
    own = {"phase": outcome.phase, "code": outcome.exit_code, "reason": outcome.reason, "kept": kept}
    return {**failure, **own, "attempt": outcome.attempt or None, "disk": used}
