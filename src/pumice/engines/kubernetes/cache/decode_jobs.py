"""Decodes the Jobs and Commands of a cluster.

A Job that fits its types is decoded by msgspec, any other by the codec that reports every misfit: a CRD without a
schema accepts anything, and the errors belong in the status of the job, not in a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.size_limits import check_size
from pumice.engines.kubernetes.cache.store import Identity
from pumice.model.codec import decode
from pumice.model.findings import Finding
from pumice.model.job import Job, JobStatus, Metadata
from pumice.model.shape import Schema
from pumice.model.snapshot import Command, JobKey
from pumice.model.vocabulary import KIND

_JOB: Final = msgspec.json.Decoder(Job)
_COMMAND: Final = msgspec.json.Decoder(Command)


class CachedJob(Struct, frozen=True):
    job: Job
    errors: tuple[str, ...] = ()  # fields that do not fit their types
    size: int = 0  # bytes

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


class CachedCommand(Identity, frozen=True):
    job: JobKey
    command: Command


def decode_job(raw: bytes | msgspec.Raw, kubernetes: Schema) -> CachedJob:
    size = memoryview(raw).nbytes
    try:
        return CachedJob(_JOB.decode(raw), size=size)
    except msgspec.ValidationError:
        document = msgspec.json.decode(raw)
    metadata = msgspec.convert(document["metadata"], Metadata)
    large = check_size(document)
    if large:
        return CachedJob(Job(metadata=metadata, status=_status(document.get("status"))), _messages(large), size)
    decoded = decode(document, kubernetes)
    job = msgspec.structs.replace(decoded.job, metadata=metadata, status=_status(document.get("status")))
    return CachedJob(job, _messages(finding for finding in decoded.findings if finding.is_error), size)


def _messages(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(f"{finding.path}: {finding.message}" for finding in findings)


def _status(document: object) -> JobStatus:
    """Decode the valid parts of a status: a job that lost all of it for one invalid field would run again."""
    if not isinstance(document, dict):
        return JobStatus()
    valid: dict[str, object] = {}
    for name, value in document.items():
        if _is_valid(name, value):
            valid[name] = value
        elif isinstance(value, dict):
            valid[name] = {key: inner for key, inner in value.items() if _is_valid(name, {key: inner})}
        elif isinstance(value, list):
            valid[name] = [inner for inner in value if _is_valid(name, [inner])]
    return msgspec.convert(valid, JobStatus)


def _is_valid(name: str, value: object) -> bool:
    try:
        msgspec.convert({name: value}, JobStatus)
    except msgspec.ValidationError:
        return False
    return True


def reuse_spec(
    decoded: CachedJob, known: CachedJob | None, add_defaults: Callable[[Job], Job] = lambda job: job
) -> CachedJob:
    """Keep the known spec, and all that was computed from it, while the generation is the same.

    A new spec gets the defaults: without a webhook, the names of tasks and required plugins are missing.
    """
    if known is None or known.uid != decoded.uid or known.job.metadata.generation != decoded.job.metadata.generation:
        return decoded if decoded.errors else replace(decoded, job=add_defaults(decoded.job))
    return CachedJob(msgspec.structs.replace(decoded.job, spec=known.job.spec), known.errors, decoded.size)


def same_except_text(before: Job, after: Job) -> bool:
    """Whether two versions of a job differ in nothing but the reason and the message of their status."""
    old, new = before.status.state, after.status.state
    state = msgspec.structs.replace(new, reason=old.reason, message=old.message)
    status = msgspec.structs.replace(after.status, state=state)
    metadata = msgspec.structs.replace(after.metadata, resource_version=before.metadata.resource_version)
    return after.spec is before.spec and (metadata, status) == (before.metadata, before.status)


def decode_command(raw: bytes | msgspec.Raw) -> CachedCommand | None:
    """Return None for a Command to another kind than a Job, and for one that only a finalizer keeps."""
    command = _COMMAND.decode(raw)
    metadata, target = command.metadata, command.target
    if target is None or target.kind != KIND or metadata.deletion_timestamp is not None:
        return None
    job = JobKey(metadata.namespace, target.name)
    return CachedCommand(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version, job, command)
