"""Submits a run: checks it as `run` would, stores it and puts it into the queue of the service."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pumice.engines.local.daemon.line_protocol import ConnectionFailedError
from pumice.engines.local.events import Emitter
from pumice.engines.local.preflight import has_counted_processes
from pumice.engines.local.preparation import prepared
from pumice.engines.local.runs.new_record import new_record
from pumice.engines.local.runs.run_record import DETACHED, GangPods, RunRecord
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.scaling import stored
from pumice.engines.local.scheduling.fit import pod_requests
from pumice.engines.local.scheduling.fitting import gang
from pumice.engines.local.service.on_demand import connected_service
from pumice.engines.local.supervisor.secret_values import drop_secrets, keep_secrets
from pumice.model import keys
from pumice.model.job import Job, Manifest

_UNNUMBERED = Path("0")  # the service gives it a number


async def submit(request: RunRequest, now: dt.datetime, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the run, `NAME:N`. Raises RunError, before anything is stored."""
    options = replace(request.options, mode=DETACHED)
    request = replace(request, options=options, job=stored(request.job, options.scale))
    with prepared(request, Emitter([], _raise), dry=True) as plan:
        record = queued_record(replace(request, job=plan.admitted), plan.manifests, now, environ)
    keep_secrets(record.uid, request)
    try:
        async with connected_service(options.settings.state, environ) as service:
            answer: Any = await service.call("submit", record=msgspec.to_builtins(record))
    except ConnectionFailedError:
        drop_secrets(record.uid)
        raise
    return str(answer["run"])


def queued_record(
    request: RunRequest, manifests: Sequence[Manifest], now: dt.datetime, environ: Mapping[str, str]
) -> RunRecord:
    """Return the record of a run, with what the queue must know about it."""
    job, options = request.job.job, request.options
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    bounds = [bound for bound in (options.timeout, job.spec.active_deadline_seconds) if bound is not None]
    return msgspec.structs.replace(
        new_record(request, _UNNUMBERED, now),
        gang=gang_pods(job, manifests),
        scalable=not has_counted_processes(job),
        gpus=None if visible is None else [each for each in visible.split(",") if each],
        bound=min(bounds, default=None),
    )


def gang_pods(job: Job, manifests: Sequence[Manifest]) -> list[GangPods]:
    """Return the pods that start at once, by task and request."""
    found: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for manifest in gang(job, manifests):
        requests = {name: str(amount) for name, amount in pod_requests(manifest["spec"]).items()}
        found[str(manifest["metadata"]["annotations"][keys.TASK_SPEC]), tuple(sorted(requests.items()))] += 1
    return [GangPods(task=task, count=count, requests=dict(requests)) for (task, requests), count in found.items()]


def _raise(error: Exception) -> None:
    raise error
