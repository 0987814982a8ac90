"""The events of a run in words, and what its logs show between the lines. Equal events of many pods are one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.diagnosis.code_change import code_change_text
from pumice.diagnosis.hang import hang_text
from pumice.diagnosis.outcome import RESUMED_BY_YOU, is_asked, phase_text, stop_text
from pumice.diagnosis.pod_ends import how_it_ended, how_it_failed, one_line
from pumice.diagnosis.why import sentence
from pumice.model.job import JobStatus
from pumice.model.snapshot import PodPhase
from pumice.model.vocabulary import COMMAND, Phase
from pumice.reconcile.decision import Severity
from pumice.store.events import (
    CodeChanged,
    ContainerRestarted,
    HangEnded,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    PortTaken,
    RequestAccepted,
    RunHangs,
    RunPlanned,
    RunWaits,
    Stopping,
    WarningIssued,
)
from pumice.store.history.entries import (
    JournalEntry,
    Lost,
    NotStarted,
    Queued,
    Resumed,
    SecretsMissing,
    SpecChanged,
    Started,
)
from pumice.store.journal import Entry
from pumice.store.run_end import RunEnded
from pumice.store.run_record import QUEUED

_MOST_PODS: Final = 64
_WARNINGS: Final = (Lost, NotStarted, WarningIssued, RunHangs, PodKilled, CodeChanged)
_WARNED_PHASES: Final = (Phase.FAILED, Phase.RESTARTING, Phase.TERMINATED)
_VERBS: Final = {
    PodPhase.PENDING: "created",
    PodPhase.RUNNING: "runs",
    PodPhase.SUCCEEDED: "succeeded",
    PodPhase.UNKNOWN: "is unreachable",
}
_SENTENCES: Final[Mapping[type[Any], str]] = {
    Queued: "waits for resources",
    Started: "resources granted, starting",
    Resumed: "was resumed",
    Stopping: "was asked to stop",
    CodeChanged: "code is as it was submitted",
    HangEnded: "a pod printed something again, or changed",
    SpecChanged: "its spec was changed",
    RunPlanned: "was planned",
}


RUN_MARK: Final = "run"  # the kind of a mark about the run itself
_AFTER_LOSS: Final[Mapping[str, str]] = {QUEUED: "; its pods start again", Phase.ABORTED: "; it is suspended"}


class LoggedEvent(Struct):
    seq: int
    time: dt.datetime
    type: str  # Normal or Warning
    reason: str
    message: str
    pod: str = ""  # the only one that it is about
    attempt: int = 1
    count: int = 1
    pods: list[str] = field(default_factory=list)  # all of them


class Mark(Struct, frozen=True):
    """What Pumice says between the lines of logs: a phase, a policy, a pod that failed, the run."""

    seq: int
    time: int  # nanoseconds since 1970
    kind: str
    text: str
    attempt: int
    pod: str = ""


class EventLog(Struct):
    total: int = 0
    marks: list[Mark] = field(default_factory=list)
    _events: dict[tuple[Any, ...], LoggedEvent] = field(default_factory=dict)
    _stop: str = ""  # who asked the run to end, in words

    def newest(self) -> Iterable[LoggedEvent]:
        """Return the events, the newest first."""
        return reversed(self._events.values())

    def add(self, entry: Entry, event: JournalEntry | None, attempt: int) -> None:
        """Add an entry, also one of a kind that is not known here."""
        if isinstance(event, RequestAccepted) and event.stop is not None:
            self._stop = event.stop.text
        match event:
            case PhaseChanged():
                self._add_phase(entry, event)
            case PodChanged():
                self._add_pod(entry, event)
            case ContainerRestarted(pod, end):
                message = f"restart of container {end.container}: {how_it_ended(end)}"
                self._add(_logged(entry, message, pod.retry + 1, warning=True), pod.short_name)
            case _:
                if isinstance(event, Lost | Resumed) and self.marks:
                    text = loss_text(event) if isinstance(event, Lost) else RESUMED_BY_YOU
                    self._mark(entry, RUN_MARK, text, attempt)
                pod_name = getattr(event, "pod", "")
                logged = _logged(entry, self._message(entry, event), attempt, warning=isinstance(event, _WARNINGS))
                self._add(logged, pod_name if isinstance(pod_name, str) else "")

    def _add_phase(self, entry: Entry, event: PhaseChanged) -> None:
        state, acted = event.status.state, event.acted
        warning = state.phase in _WARNED_PHASES
        about = self.about(event.status) or state.reason
        self._add(replace(_logged(entry, about, event.attempt, warning=warning), reason=state.phase))
        if acted is not None:
            text = f"{acted.pod} {acted.event}: {acted.action}".lstrip()
            warning = acted.severity is Severity.WARNING
            logged = _logged(entry, text, event.attempt, warning=warning)
            self._add(replace(logged, reason=acted.reason or "ExecuteAction"))
            pod = f"{acted.pod}: " if acted.pod else ""
            text = f"{pod}{acted.event} -> {acted.action} ({acted.policy})"
            self._mark(entry, "policy", text, event.attempt, acted.pod)
        text = f"{state.phase:<11} {about}".rstrip()
        if state.phase == Phase.RUNNING:
            text = f"{text:<11} {event.status.running}/{event.job.total_replicas}"
        if state.phase in (Phase.ABORTED, Phase.RESTARTING) and state.reason == COMMAND and about != RESUMED_BY_YOU:
            # That it was resumed has a mark already.
            self._mark(entry, RUN_MARK, about, event.attempt)
        else:
            self._mark(entry, "phase", text, event.attempt)

    def _add_pod(self, entry: Entry, event: PodChanged) -> None:
        pod = event.pod
        failed = pod.phase is PodPhase.FAILED and not pod.is_deleting
        if pod.phase is PodPhase.FAILED:
            how = how_it_failed(pod, "")
            reason, message = "PodFailed", f"{how}; {event.follows}" if event.follows else how
        else:
            reason, message = f"Pod{pod.phase}", _VERBS[pod.phase]
            if pod.waiting is not None:
                message = f"waits: {pod.waiting.message or pod.waiting.reason}"
        logged = _logged(entry, message, pod.retry + 1, warning=failed)
        self._add(replace(logged, reason=reason), pod.short_name)
        if failed:
            text = f"{pod.short_name} failed: {how_it_failed(pod, '')}"
            self._mark(entry, "pod", text, pod.retry + 1, pod.short_name)

    def _add(self, event: LoggedEvent, pod: str = "") -> None:
        self.total += 1
        key = (event.attempt, event.reason, event.message)
        known = self._events.pop(key, None)
        event.pods = [pod] if pod else []
        if known is not None:
            event.count = known.count + 1
            event.pods = list(dict.fromkeys([*known.pods, *event.pods]))[:_MOST_PODS]
        event.pod = event.pods[0] if len(event.pods) == 1 else ""
        self._events[key] = event

    def about(self, status: JobStatus) -> str:
        """Return why the Job is in its phase, in words."""
        return phase_text(status, self._stop)

    def _message(self, entry: Entry, event: JournalEntry | None) -> str:
        match event:
            case None:
                data = plain if isinstance(plain := entry.plain(), dict) else {}
                return str(data.get("message") or data.get("reason") or "")
            case RunWaits(why):
                return sentence(why)
            case CodeChanged(change):
                return _SENTENCES[CodeChanged] if change is None else code_change_text(change)
            case RunHangs(hang):
                return hang_text(hang)
            case PortPublished(_, port, address):
                return f"port {port} is published at {address}"
            case PortTaken(why=why):
                return f"{why}; retrying"
            case SecretsMissing(message, command):
                return f"{message}; {command}"
            case RunEnded(job):
                return self.about(job.status) or "ended"
            case _:
                message = getattr(event, "message", "") or getattr(event, "reason", "")
                return str(message) if isinstance(message, str) and message else _SENTENCES.get(type(event), "")

    def _mark(self, entry: Entry, kind: str, text: str, attempt: int, pod: str = "") -> None:
        nanoseconds = int(entry.time.timestamp() * 1e9)
        self.marks.append(Mark(entry.seq, nanoseconds, kind, one_line(text), attempt, pod))


def loss_text(lost: Lost) -> str:
    """Return what the end of the process of a run means: `interrupted: it was killed; its pods start again`."""
    if is_asked(lost.reason):
        return stop_text(lost.reason, lost.message)
    return f"interrupted: {lost.message}{_AFTER_LOSS.get(lost.phase, '')}"


def _logged(entry: Entry, message: str, attempt: int, *, warning: bool) -> LoggedEvent:
    severity = str(Severity.WARNING if warning else Severity.NORMAL)
    return LoggedEvent(entry.seq, entry.time, severity, entry.kind, message, attempt=attempt)
