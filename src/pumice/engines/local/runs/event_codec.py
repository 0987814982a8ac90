"""The events of a run as journal entries, and back: what was shown live can be shown again from the journal.

The job is stored once, with the plan and after each change; events that carry it refer to the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pumice.engines.local.events import (
    ContainerRestarted,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    Progress,
    RequestAccepted,
    RunEvent,
    RunPlanned,
    RunWaits,
    StatusWritten,
    Stopping,
    WarningIssued,
)
from pumice.engines.local.outcome import Outcome, Stop
from pumice.engines.local.runs.journal import Entry
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, JobSpec
from pumice.model.snapshot import ObservedPod
from pumice.model.status import JobStatus
from pumice.reconcile.ledger import read_ledger, write_ledger
from pumice.reconcile.ledger_update import record_successes

SPEC_CHANGED: Final = "SpecChanged"
_WITH_STATUS: Final = (StatusWritten.__name__, PhaseChanged.__name__)
_STATUSES: Final = 2
_KINDS: Final[Mapping[str, type[Any]]] = {
    each.__name__: each
    for each in (
        ContainerRestarted,
        Outcome,
        PhaseChanged,
        PodChanged,
        PodKilled,
        PortPublished,
        Progress,
        RequestAccepted,
        RunPlanned,
        RunWaits,
        StatusWritten,
        Stopping,
        WarningIssued,
    )
}


@dataclass(slots=True)
class EventEncoder:
    _spec: JobSpec | None = None

    def encode(self, event: RunEvent) -> list[tuple[str, Any]]:
        """Return kind and data of the entries of an event; none for logs and for the passing of time."""
        if type(event).__name__ not in _KINDS:
            return []
        entries: list[tuple[str, Any]] = []
        if isinstance(event, RunPlanned):
            self._spec = event.job.spec
        elif isinstance(event, PhaseChanged | Outcome):
            if event.job.spec != self._spec:
                self._spec = event.job.spec
                entries.append((SPEC_CHANGED, plain_value(event.job.spec)))
            status = event.job.status
            data = plain_value(replace(event, job=Job()))
            data["job"] = {"status": plain_value(status)} if isinstance(event, Outcome) else {}
            return [*entries, (type(event).__name__, data)]
        return [(type(event).__name__, plain_value(event))]


@dataclass(slots=True)
class EventDecoder:
    job: Job

    def decode(self, entry: Entry) -> RunEvent | None:
        """Return the event; None for entries that are none, are damaged, or have a kind that is not known here."""
        if entry.kind == SPEC_CHANGED:
            self.job = msgspec.structs.replace(self.job, spec=_tolerated(entry.data, JobSpec) or self.job.spec)
            return None
        kind = _KINDS.get(entry.kind)
        if kind is None:
            return None
        event: RunEvent | None = _tolerated(entry.data, kind)
        if isinstance(event, RunPlanned):
            self.job = event.job
        elif isinstance(event, PhaseChanged):
            self.job = msgspec.structs.replace(self.job, status=event.status)
            return replace(event, job=self.job)
        elif isinstance(event, Outcome):
            self.job = msgspec.structs.replace(self.job, status=event.job.status)
            return replace(event, job=self.job)
        return event


def last_status(entries: Sequence[Entry]) -> JobStatus | None:
    """Return the status that was written last: what another process needs to continue the run."""
    for entry in reversed(entries):
        if entry.kind in _WITH_STATUS and (found := _tolerated(entry.data, StatusWritten)) is not None:
            status: JobStatus = found.status
            return status
    return None


def status_to_continue(entries: Sequence[Entry], job: Job) -> JobStatus:
    """Return the status for the next process of a run, with the pods that succeeded since.

    A status is decided before it is written, so a pod may have succeeded in between. It saw every pod that changed
    before the status before it was written.
    """
    status = last_status(entries)
    if status is None:
        return JobStatus()
    pods: list[ObservedPod] = []
    written = 0
    for entry in reversed(entries):
        written += entry.kind == StatusWritten.__name__
        if written == _STATUSES:
            break
        if entry.kind == PodChanged.__name__ and (changed := _tolerated(entry.data, PodChanged)) is not None:
            pods.append(changed.pod)
    ledger = record_successes(read_ledger(status), job, pods)
    return msgspec.structs.replace(status, controlled_resources=write_ledger(ledger))


def stop_of(entry: Entry) -> Stop | None:
    """Return why the run was asked to end; None if the entry is no such request."""
    if entry.kind != RequestAccepted.__name__:
        return None
    request: RequestAccepted | None = _tolerated(entry.data, RequestAccepted)
    return None if request is None else request.stop


def accepted_scale(entries: Sequence[Entry]) -> dict[str, int]:
    """Return the numbers of pods that the run was asked to have, by task."""
    found: dict[str, int] = {}
    for entry in entries:
        request = _tolerated(entry.data, RequestAccepted) if entry.kind == RequestAccepted.__name__ else None
        found |= {} if request is None else request.replicas
    return found


def plain_value(value: object) -> Any:
    """Return a value as plain data; paths are texts."""
    return msgspec.to_builtins(value, enc_hook=_encode_path, str_keys=True)


def value_of(value: object, kind: type[Any]) -> Any:
    """Return the value of plain data."""
    return msgspec.convert(value, kind, dec_hook=_decode_path, strict=False)


def _tolerated(value: object, kind: type[Any]) -> Any:
    """Return None for data of another format: one entry must not hide the others."""
    try:
        return value_of(value, kind)
    except msgspec.ValidationError:
        return None


def _encode_path(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _decode_path(kind: type[Any], value: Any) -> Any:
    if kind is Path:
        return Path(value)
    if kind is JobPath:
        return JobPath(value)
    raise NotImplementedError(kind.__name__)
