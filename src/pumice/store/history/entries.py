"""The entries of a journal: what happens to a run, besides the events of its job (`events.py`); their codec.

The kind of an entry is the name of its class. The union `JournalEntry` is everything that a journal records. The Job is
stored once, with the plan and after each change; events that carry it refer to the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, JobSpec, scaled
from pumice.store.events import PhaseChanged, RecordedEvent, RequestAccepted, RunEvent, RunPlanned
from pumice.store.run_end import RunEnded
from pumice.store.run_record import QUEUED


class Queued(Struct, frozen=True):
    """The run waits for its resources; a lower number came earlier."""

    arrival: int = 0


class Held(Struct, frozen=True):
    """The run waits until its user resumes it."""

    suspended: bool = False  # by `suspend`, while it waited; otherwise it was submitted so


class Started(Struct, frozen=True):
    """The run has its resources."""

    gpus: tuple[str, ...] = ()


class Resumed(Struct, frozen=True):
    """The user resumed the run."""


class Detached(Struct, frozen=True):
    """The run outlives its client. With its number in the queue it can be started again."""

    arrival: int = 0


class Lost(Struct, frozen=True):
    """The process of the run was killed. `phase` is what the run is in from now on: queued, suspended or ended."""

    reason: str = ""
    message: str = ""
    phase: str = QUEUED
    code: int = 1  # the exit code of a run that ended


class NoRoom(Struct, frozen=True):
    """The run waited longer than it may."""

    message: str = ""


class NotStarted(Struct, frozen=True):
    """The run could not start, or an error of its process ended it."""

    reason: str = ""
    message: str = ""


class SecretsMissing(Struct, frozen=True):
    """Values that the run needs are not stored, and gone; `command` resumes it with them."""

    message: str = ""
    command: str = ""


class SpecChanged(Struct, frozen=True):
    """The spec of the Job from now on. Events that carry the Job refer to the newest."""

    spec: JobSpec


JournalEntry: TypeAlias = (
    Queued
    | Held
    | Started
    | Resumed
    | Detached
    | Lost
    | NoRoom
    | NotStarted
    | SecretsMissing
    | SpecChanged
    | RecordedEvent
)
KINDS: Final = {each.__name__: each for each in get_args(JournalEntry)}


def encode(value: object) -> Any:
    """Return a value as plain data; paths are texts."""
    return msgspec.to_builtins(value, enc_hook=_encode_path, str_keys=True)


def decode_entry(kind: str, data: msgspec.Raw) -> JournalEntry | None:
    """Return the entry; None for a kind that is not known here. Raises what `EventDecoder.decode` does."""
    entry: JournalEntry | None = _DECODERS[kind].decode(data) if kind in _DECODERS else None
    return entry


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


# Made when the module loads: msgspec crashes if two threads are the first to use a type at the same time, as threads of
# the service that recover runs are.
_DECODERS: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(each, dec_hook=_decode_path, strict=False) for name, each in KINDS.items()
}


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
