"""The events of a run as journal entries, and back: what was shown live can be shown again from the journal.

The job is stored once, with the plan and after each change; events that carry it refer to the newest.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.model.job import Job, JobSpec, scaled
from pumice.store.events import PhaseChanged, RequestAccepted, RunEvent, RunPlanned
from pumice.store.history.entries import KINDS, JournalEntry, SpecChanged, decode_entry, encode
from pumice.store.run_end import RunEnded


class EventEncoder(Struct):
    _spec: JobSpec | None = None

    def encode(self, event: RunEvent) -> list[tuple[str, Any]]:
        """Return kind and data of the entries of an event; none for logs and for the passing of time."""
        if type(event).__name__ not in KINDS:
            return []
        entries: list[tuple[str, Any]] = []
        if isinstance(event, RunPlanned):
            self._spec = event.job.spec
        elif isinstance(event, PhaseChanged | RunEnded):
            if event.job.spec != self._spec:
                self._spec = event.job.spec
                entries.append((SpecChanged.__name__, encode(SpecChanged(event.job.spec))))
            status = event.job.status
            data = encode(replace(event, job=Job()))
            data["job"] = {"status": encode(status)} if isinstance(event, RunEnded) else {}
            return [*entries, (type(event).__name__, data)]
        return [(type(event).__name__, encode(event))]


class EventDecoder(Struct):
    """Decodes entries in their order, and gives events that carry the job the newest one."""

    job: Job

    def decode(self, kind: str, data: msgspec.Raw) -> JournalEntry | None:
        """Return the entry; None for one of a kind that is not known here.

        Raises msgspec.ValidationError and msgspec.DecodeError for data of another format.
        """
        entry = decode_entry(kind, data)
        match entry:
            case SpecChanged(spec):
                self.job = replace(self.job, spec=spec)
            case RequestAccepted(_, replicas) if replicas:
                # The spec itself is stored with the next phase.
                self.job = replace(self.job, spec=scaled(self.job.spec, replicas))
            case RunPlanned(job):
                self.job = job
            case PhaseChanged(_, status):
                self.job = replace(self.job, status=status)
                return replace(entry, job=self.job)
            case RunEnded(job):
                self.job = replace(self.job, status=job.status)
                return replace(entry, job=self.job)
        return entry

    def decode_message(self, kind: str, data: Any) -> RunEvent | None:
        """Return the event of a message from the process of the run; None for one that is not known here."""
        try:
            event = self.decode(kind, msgspec.Raw(msgspec.json.encode(data)))
        except (msgspec.ValidationError, msgspec.DecodeError):
            return None
        return event if isinstance(event, RunEvent) else None
