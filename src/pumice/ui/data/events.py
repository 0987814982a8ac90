"""The events of a run as text, from the entries of its journal. Equal events of many pods are counted as one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.engines.local.events import (
    ContainerRestarted,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    RunPlanned,
    RunWaits,
    Stopping,
    WarningIssued,
)
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.runs.event_codec import SPEC_CHANGED
from pumice.engines.local.runs.journal import EntryKind
from pumice.engines.local.verdict import how_it_failed
from pumice.model.snapshot import PodPhase
from pumice.reconcile.decision import Severity
from pumice.reconcile.verdict import how_it_ended
from pumice.ui.detail_values import Event, Events

_MOST_PODS: Final = 64
_PAGE: Final = 200
_WARNINGS: Final = frozenset((EntryKind.LOST, EntryKind.NOT_STARTED, WarningIssued.__name__, PodKilled.__name__))
_VERBS: Final = {
    PodPhase.PENDING: "created",
    PodPhase.RUNNING: "runs",
    PodPhase.SUCCEEDED: "succeeded",
    PodPhase.UNKNOWN: "is unreachable",
}
_PLAIN: Final[Mapping[str, str]] = {
    EntryKind.QUEUED: "waits for its room",
    EntryKind.STARTED: "has its room",
    EntryKind.RESUMED: "was resumed",
    Stopping.__name__: "was asked to stop",
    SPEC_CHANGED: "its spec was changed",
    RunPlanned.__name__: "was planned",
    Outcome.__name__: "ended",
}


@dataclass(slots=True)
class _Item:
    seq: int
    time: dt.datetime
    severity: str
    reason: str
    message: str
    attempt: int
    count: int = 1
    pods: list[str] = field(default_factory=list)


@dataclass(slots=True)
class EventLog:
    total: int = 0
    _items: dict[tuple[Any, ...], _Item] = field(default_factory=dict)

    def add_phase(self, seq: int, time: dt.datetime, event: PhaseChanged) -> None:
        state = event.status.state
        warning = state.phase in ("Failed", "Restarting", "Terminated")
        self._add(
            _Item(seq, time, _severity(warning=warning), state.phase, state.message or state.reason, event.attempt)
        )
        if event.acted is not None:
            acted = event.acted
            text = f"{acted.pod} {acted.event}: {acted.action}".lstrip()
            self._add(_Item(seq, time, str(acted.severity), acted.reason or "ExecuteAction", text, event.attempt))

    def add_pod(self, seq: int, time: dt.datetime, event: PodChanged) -> None:
        pod = event.pod
        if pod.phase is PodPhase.FAILED:
            reason, message = "PodFailed", how_it_failed(pod, "")
            if event.follows:
                message = f"{message}; {event.follows}"
        else:
            reason, message = f"Pod{pod.phase}", _VERBS[pod.phase]
            if pod.waiting is not None:
                message = f"waits: {pod.waiting.message or pod.waiting.reason}"
        failed = pod.phase is PodPhase.FAILED and not pod.is_deleting
        self._add(_Item(seq, time, _severity(warning=failed), reason, message, pod.retry + 1, pods=[pod.short_name]))

    def add_restart(self, seq: int, time: dt.datetime, event: ContainerRestarted) -> None:
        message = f"restart of container {event.end.container}: {how_it_ended(event.end)}"
        item = _Item(seq, time, _severity(warning=True), "ContainerRestarted", message, event.pod.retry + 1)
        item.pods = [event.pod.short_name]
        self._add(item)

    def add_plain(self, seq: int, time: dt.datetime, kind: str, data: Any, attempt: int) -> None:
        """Add an entry of another kind, also one that this version does not know."""
        fields: Mapping[str, Any] = data if isinstance(data, dict) else {}
        message = str(fields.get("message") or fields.get("reason") or _PLAIN.get(kind, ""))
        if kind == RunWaits.__name__:
            message = _why(fields.get("why"))
        if kind == PortPublished.__name__:
            message = f"port {fields.get('port')} is published at {fields.get('address')}"
        pod = fields.get("pod")
        pods = [pod] if isinstance(pod, str) and pod else []
        self._add(_Item(seq, time, _severity(warning=kind in _WARNINGS), kind, message, attempt, pods=pods))

    def _add(self, item: _Item) -> None:
        self.total += 1
        key = (item.attempt, item.reason, item.message)
        known = self._items.pop(key, None)
        if known is not None:
            item.count = known.count + 1
            item.pods = list(dict.fromkeys([*known.pods, *item.pods]))[:_MOST_PODS]
        self._items[key] = item

    def page(self, before: int | None = None) -> Events:
        """Return the newest events, or those before a sequence number."""
        newest = [each for each in reversed(self._items.values()) if before is None or each.seq < before]
        items = tuple(
            Event(
                seq=each.seq,
                time=each.time,
                type=each.severity,
                reason=each.reason,
                message=each.message,
                pod=each.pods[0] if len(each.pods) == 1 else "",
                attempt=each.attempt,
                count=each.count,
                pods=tuple(each.pods),
            )
            for each in newest[:_PAGE]
        )
        return Events(total=self.total, items=items, after=items[-1].seq if len(newest) > _PAGE else None)


def _severity(*, warning: bool) -> str:
    return str(Severity.WARNING if warning else Severity.NORMAL)


def _why(why: Any) -> str:
    fields: Mapping[str, Any] = why if isinstance(why, dict) else {}
    short = fields.get("short") or []
    parts = [f"{each.get('resource')}: {each.get('wanted')} wanted, {each.get('free')} free" for each in short]
    return "; ".join(filter(None, [str(fields.get("message") or ""), *parts])) or str(fields.get("code") or "")
