"""The entries of a journal: what happens to a run, besides the events of its job (`events.py`).

The kind of an entry is the name of its class. The union `JournalEntry` is everything that a journal records.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec import Struct

from pumice.model.findings import Path as JobPath
from pumice.model.job import JobSpec
from pumice.store.events import RecordedEvent
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
    """Return the entry; None for a kind that is not known here.

    Raises msgspec.ValidationError and msgspec.DecodeError for data of another format.
    """
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
