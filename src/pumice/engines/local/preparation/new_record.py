"""What is stored of a new run, without secrets."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.preparation.preflight import has_counted_processes
from pumice.engines.local.preparation.run_plan import Plan
from pumice.engines.local.scheduling.fit import pod_requests
from pumice.engines.local.scheduling.machine import read_gpus
from pumice.model import VERSION, keys
from pumice.model.job import Job, Manifest
from pumice.store.files.owner_lock import boot_id
from pumice.store.files.state_directory import host_name
from pumice.store.options import encode_options, priority_of, secret_names
from pumice.store.run_record import LONGEST_BOUND, GangPods, RunRecord

_SECRET_FIELDS: Final = ("data", "stringData")


def new_record(plan: Plan, number: int, now: dt.datetime) -> RunRecord:
    """Return the record of a run: its job as written, because `--fit` is applied again when the run is resumed."""
    request = plan.request
    job, options, documents = request.job.written, request.options, request.documents
    hidden, file = secret_names(options), request.source.file
    # The files that may have the Secrets of the job, to read them again after a restart.
    sources = [*options.documents, *([] if file in ("", "-") else [options.settings.workdir / file])]
    secrets = [name for each in documents if (name := _secret_of(each))]
    return RunRecord(
        uid=job.uid,
        namespace=job.namespace or "default",
        name=job.name,
        number=number,
        host=host_name(),
        boot=boot_id(),
        created=now,
        mode=options.mode,
        file=file,
        workdir=str(options.settings.workdir),
        job=msgspec.to_builtins(job),
        marks=request.source.plain(),
        documents=[_without_values(document) for document in documents],
        options=encode_options(options, hidden),
        secrets=[*hidden, *secrets],
        sources={str(path): found for path in sources if secrets and (found := file_hash(path))},
        priority=priority_of(job, options),
        gang=gang_pods(plan.gang),
        scalable=not has_counted_processes(plan.job),
        gpus=list(read_gpus()) if "CUDA_VISIBLE_DEVICES" in os.environ else None,
        bound=bound(plan.job, options.timeout),
        note=options.note,
        args=list(options.args),
        python=sys.executable,
        version=VERSION,
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
