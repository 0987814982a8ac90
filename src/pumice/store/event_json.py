"""The events of a run as JSON, one object per line: `pumice run --json`, and events.jsonl in the run directory.

`attempt` is the job's (1, and one more with each restart by a policy); where a container restarts, it is its number of
restarts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.diagnosis.code_change import code_change_text
from pumice.diagnosis.hang import hang_text
from pumice.diagnosis.verdict_lines import verdict_lines
from pumice.diagnosis.why import sentence
from pumice.model.snapshot import ContainerEnd, ObservedPod
from pumice.model.vocabulary import Phase
from pumice.store.events import (
    CodeChanged,
    ContainerRestarted,
    LogOutput,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    PortTaken,
    RunEvent,
    RunHangs,
    RunPlanned,
    RunWaits,
    WarningIssued,
)
from pumice.store.run_end import RunEnded

Fields = Mapping[str, Any]
# JSON allows these characters in a string, but many programs take them for the end of a line.
_LINE_ENDS: Final = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


class JsonView(Struct, frozen=True):
    """`write` gets whole lines; `next_step` returns what to type after a run, where the verdict does not say it."""

    write: Callable[[str], None]
    next_step: Callable[[RunEnded], str] = lambda _outcome: ""
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

    def _fields(self, event: RunEvent) -> Fields:  # noqa: C901, PLR0912 - one case per event
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
                phase = {"type": "phase", "phase": state.phase, "attempt": attempt}
                phase |= {"reason": state.reason, "message": message}
                if acted is not None:
                    phase |= {
                        "pod": acted.pod,
                        "policy": str(acted.policy),
                        "event": acted.event,
                        "action": acted.action,
                    }
                return phase
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
            case PortTaken(pod_name, port, address, why):
                about = {"port": port, "address": address, "message": why}
                return {"type": "pod", "pod": pod_name, "reason": "PortTaken", **about}
            case RunHangs(hang):
                return {"type": "warning", "message": hang_text(hang)}
            case CodeChanged(change) if change is not None:
                return {"type": "warning", "message": code_change_text(change)}
            case WarningIssued(message):
                return {"type": "warning", "message": message}
            case RunEnded():
                message = ""
                if (verdict := event.verdict) is not None:
                    verdict = msgspec.structs.replace(verdict, next=self.next_step(event) or verdict.next)
                    message = "\n".join(verdict_lines(verdict))
                return {"type": "verdict", **_verdict(event), "message": message}
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
    end = pod.deciding_end
    fields = {} if end is None else dict(_end(end))
    return {**fields, "reason": "Deleted" if pod.is_deleting else fields.get("reason") or pod.reason}


def _end(end: ContainerEnd) -> Fields:
    ended = {"container": end.container, "code": end.exit_code, "signal": end.signal or None, "reason": end.reason}
    return {**ended, "line": end.last_line}


def _verdict(outcome: RunEnded) -> Fields:
    first = outcome.first
    failure: Fields = {}
    if first is not None:
        failure = {"container": first.container, "code": 0, "signal": first.signal, "reason": "", "line": first.line}
        failure = {**failure, "pod": first.pod}
    kept, attempt = tuple(outcome.kept), outcome.job.status.retry_count + 1
    if outcome.verdict is not None:
        attempt = outcome.verdict.attempt
    disk = outcome.disk
    used = {"claims": disk.claims, "emptyDir": disk.volumes, "layers": disk.layers} if disk.total else {}
    own = {"phase": outcome.phase, "code": outcome.exit_code, "reason": outcome.reason, "kept": kept}
    return {**failure, **own, "attempt": attempt or None, "disk": used}
