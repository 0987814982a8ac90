"""The events of a run as journal entries, and back: what was shown live can be shown again from the journal.

The job is stored once, with the plan and after each change; events that carry it refer to the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.engines.local.events import (
    ContainerRestarted,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    Progress,
    RunEvent,
    RunPlanned,
    RunWaits,
    StatusWritten,
    Stopping,
    WarningIssued,
)
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.runs.journal import Entry
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, JobSpec
from pumice.model.status import JobStatus

SPEC_CHANGED: Final = "SpecChanged"
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
                entries.append((SPEC_CHANGED, _plain(event.job.spec)))
            status = event.job.status
            data = _plain(replace(event, job=Job()))
            data["job"] = {"status": _plain(status)} if isinstance(event, Outcome) else {}
            return [*entries, (type(event).__name__, data)]
        return [(type(event).__name__, _plain(event))]


@dataclass(slots=True)
class EventDecoder:
    job: Job

    def decode(self, entry: Entry) -> RunEvent | None:
        """Return the event; None for entries that are none, and for kinds that this version does not know."""
        if entry.kind == SPEC_CHANGED:
            self.job = msgspec.structs.replace(self.job, spec=_convert(entry.data, JobSpec))
            return None
        kind = _KINDS.get(entry.kind)
        if kind is None:
            return None
        event: RunEvent = _convert(entry.data, kind)
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
    """Return the status that was written last: what another process needs to go on with the run."""
    for entry in reversed(entries):
        if entry.kind in (StatusWritten.__name__, PhaseChanged.__name__):
            return msgspec.convert(entry.data["status"], JobStatus)
    return None


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value, enc_hook=_encode_path, str_keys=True)


def _convert(value: object, kind: type[Any]) -> Any:
    return msgspec.convert(value, kind, dec_hook=_decode_path, strict=False)


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
