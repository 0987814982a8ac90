"""What is stored of a new run, without secrets."""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.metadata
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pumice.engines.local.options import RunOptions, priority_of
from pumice.engines.local.preparation.preflight import has_counted_processes
from pumice.engines.local.runs.owner_lock import boot_id
from pumice.engines.local.runs.run_record import LONGEST_BOUND, SECRET_NAME, GangPods, RunRecord
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.scheduling.fit import pod_requests
from pumice.engines.local.scheduling.fitting import gang
from pumice.engines.local.scheduling.machine import read_gpus
from pumice.engines.local.state.state_directory import host_name
from pumice.model import keys
from pumice.model.job import Job, Manifest

_SECRET_FIELDS: Final = ("data", "stringData")


def new_record(request: RunRequest, directory: Path, now: dt.datetime) -> RunRecord:
    """The job is a stored one, with the uid of the run; `directory` is reserved for it."""
    job, options, documents = request.job.written, request.options, request.documents
    hidden = secret_names(options)
    return RunRecord(
        uid=job.uid,
        namespace=job.namespace or "default",
        name=job.name,
        number=int(directory.name),
        host=host_name(),
        boot=boot_id(),
        created=now,
        mode=options.mode,
        file=request.source.file,
        workdir=str(options.settings.workdir),
        job=msgspec.to_builtins(job),
        marks=request.source.plain(),
        documents=[_without_values(document) for document in documents],
        options=plain_options(options, hidden),
        secrets=[*hidden, *(name for each in documents if (name := _secret_of(each)))],
        sources=_sources(request),
        priority=priority_of(job, options),
        gang=gang_pods(gang(request.job.job, request.manifests)),
        scalable=not has_counted_processes(request.job.job),
        gpus=list(read_gpus()) if "CUDA_VISIBLE_DEVICES" in os.environ else None,
        bound=bound(request.job.job, options.timeout),
        note=options.note,
        python=sys.executable,
        version=importlib.metadata.version("pumice"),
    )


def gang_pods(manifests: Sequence[Manifest]) -> list[GangPods]:
    """Return what the pods of a gang request, with equal pods of a task counted."""
    counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for manifest in manifests:
        requests = {name: str(amount) for name, amount in pod_requests(manifest["spec"]).items()}
        counts[str(manifest["metadata"]["annotations"][keys.TASK_SPEC]), tuple(sorted(requests.items()))] += 1
    return [GangPods(task=task, count=count, requests=dict(each)) for (task, each), count in counts.items()]


def bound(job: Job, timeout: float | None) -> float | None:
    """Return after how many seconds the run ends at the latest; None if nothing bounds it."""
    deadline = job.spec.active_deadline_seconds
    bounds = [float(each) for each in (deadline, timeout) if each is not None and each <= LONGEST_BOUND]
    return min(bounds, default=None)


def secret_names(options: RunOptions) -> list[str]:
    """Return the variables whose values are not stored: those that were passed on, and those with secret names."""
    settings = options.settings
    return sorted(name for name in settings.env if name in settings.passed_on or SECRET_NAME.search(name))


def plain_options(options: RunOptions, hidden: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options as plain data, without the values of hidden variables."""
    env = {name: value for name, value in options.settings.env.items() if name not in hidden}
    settings = replace(options.settings, env=env)
    plain: dict[str, Any] = msgspec.to_builtins(replace(options, settings=settings), enc_hook=str, str_keys=True)
    return plain


def options_of(plain: Mapping[str, Any], env: Mapping[str, str] = {}) -> RunOptions:
    """Return the options of plain data, with variables that were not stored."""
    options: RunOptions = msgspec.convert(plain, RunOptions, dec_hook=lambda kind, value: kind(value), strict=False)
    if not env:
        return options
    return replace(options, settings=replace(options.settings, env={**options.settings.env, **env}))


def _sources(request: RunRequest) -> dict[str, str]:
    """Return the hashes of the files that may have the Secrets of the job, to read them again after a restart."""
    if not any(map(_secret_of, request.documents)):
        return {}
    options, file = request.options, request.source.file
    files = [*options.documents, *([] if file in ("", "-") else [options.settings.workdir / file])]
    return {str(path): found for path in files if (found := file_hash(path))}


def file_hash(path: Path) -> str:
    """Return the hash of a file; empty if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _secret_of(document: Manifest) -> str:
    return f"Secret {document['metadata']['name']}" if document.get("kind") == "Secret" else ""


def _without_values(document: Manifest) -> Manifest:
    if document.get("kind") != "Secret":
        return document
    empty: Manifest = {field: dict.fromkeys(document[field] or {}, "") for field in _SECRET_FIELDS if field in document}
    return {**document, **empty}
