"""Jobs and Commands as they are stored on a cluster.

A Job is decoded by the fast decoder if it fits, and by the patient one, which reports every misfit, if it does not: a
definition without a schema lets anything in, and that must be told in the job's status rather than in a traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.model.codec import decode
from pumice.model.command import Command
from pumice.model.job import Job, Metadata
from pumice.model.shape import Schema
from pumice.model.snapshot import JobKey
from pumice.model.status import JobStatus
from pumice.model.vocabulary import KIND

_JOB: Final = msgspec.json.Decoder(Job)
_COMMAND: Final = msgspec.json.Decoder(Command)


@dataclass(frozen=True, slots=True)
class CachedJob:
    job: Job
    faults: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        return self.job.namespace

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def uid(self) -> str:
        return self.job.uid

    @property
    def resource_version(self) -> str:
        return self.job.metadata.resource_version

    @property
    def key(self) -> JobKey:
        return JobKey(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class CachedCommand:
    command: Command

    @property
    def namespace(self) -> str:
        return self.command.metadata.namespace

    @property
    def name(self) -> str:
        return self.command.metadata.name

    @property
    def uid(self) -> str:
        return self.command.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.command.metadata.resource_version

    @property
    def job(self) -> JobKey:
        target = self.command.target
        return JobKey(self.namespace, target.name if target is not None else "")


def decode_job(raw: bytes | msgspec.Raw, kubernetes: Schema) -> CachedJob:
    try:
        return CachedJob(_JOB.decode(raw))
    except msgspec.ValidationError:
        document = msgspec.json.decode(raw)
    decoded = decode(document, kubernetes)
    # Whatever is wrong with the rest, by its metadata it is found.
    metadata = msgspec.convert(document["metadata"], Metadata)
    job = msgspec.structs.replace(decoded.job, metadata=metadata, status=_status(document.get("status")))
    faults = (f"{finding.path}: {finding.message}" for finding in decoded.findings if finding.is_error)
    return CachedJob(job, tuple(faults))


def _status(document: object) -> JobStatus:
    """As much of a status as can be read: a job that lost all of it for one wrong word would run again."""
    if not isinstance(document, dict):
        return JobStatus()
    kept: dict[str, object] = {}
    for name, value in document.items():
        if _fits(name, value):
            kept[name] = value
        elif isinstance(value, dict):
            kept[name] = {key: inner for key, inner in value.items() if _fits(name, {key: inner})}
        elif isinstance(value, list):
            kept[name] = [inner for inner in value if _fits(name, [inner])]
    return msgspec.convert(kept, JobStatus)


def _fits(name: str, value: object) -> bool:
    try:
        msgspec.convert({name: value}, JobStatus)
    except msgspec.ValidationError:
        return False
    return True


def as_it_is(job: Job) -> Job:
    return job


def with_known_spec(seen: CachedJob, before: CachedJob | None, completed: Callable[[Job], Job] = as_it_is) -> CachedJob:
    """The spec of a job changes with its generation only; the one that is known already is kept, and all made of it.

    A new one is completed with the defaults: where there is no webhook, nobody has filled in the names of tasks or the
    plugins that others need.
    """
    if before is None or before.uid != seen.uid or before.job.metadata.generation != seen.job.metadata.generation:
        return seen if seen.faults else CachedJob(completed(seen.job))
    return CachedJob(msgspec.structs.replace(seen.job, spec=before.job.spec), before.faults)


def same_except_text(before: Job, after: Job) -> bool:
    """Whether two versions of a job differ in nothing but the reason and the message of their status."""
    old, new = before.status.state, after.status.state
    state = msgspec.structs.replace(new, reason=old.reason, message=old.message)
    status = msgspec.structs.replace(after.status, state=state)
    metadata = msgspec.structs.replace(after.metadata, resource_version=before.metadata.resource_version)
    return after.spec is before.spec and (metadata, status) == (before.metadata, before.status)


def decode_command(raw: bytes | msgspec.Raw) -> CachedCommand | None:
    """None for a Command to something else than a Job, such as a Queue, and for one that was obeyed or taken back."""
    command = _COMMAND.decode(raw)
    # Somebody's finalizer may keep a Command that is removed for as long as it likes.
    if command.target is None or command.target.kind != KIND or command.metadata.deletion_timestamp is not None:
        return None
    return CachedCommand(command)
