"""Submits a run: checks it as `run` would, stores it and puts it into the queue of the service."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pumice.engines.local.daemon.line_protocol import ConnectionFailedError
from pumice.engines.local.events import Emitter
from pumice.engines.local.preparation import prepared
from pumice.engines.local.runs.new_record import new_record
from pumice.engines.local.runs.run_record import DETACHED
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.scaling import stored
from pumice.engines.local.service.on_demand import connected_service
from pumice.engines.local.supervisor.secret_values import drop_secrets, keep_secrets

_UNNUMBERED = Path("0")  # the service gives it a number


async def submit(request: RunRequest, now: dt.datetime, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the run, `NAME:N`. Raises RunError, before anything is stored."""
    options = replace(request.options, mode=DETACHED)
    request = replace(request, options=options, job=stored(request.job, options.scale))
    with prepared(request, Emitter([], _raise), dry=True) as plan:
        record = new_record(replace(request, job=plan.admitted, manifests=plan.manifests), _UNNUMBERED, now)
    keep_secrets(record.uid, request)
    try:
        async with connected_service(options.settings.state, environ) as service:
            answer: Any = await service.call("submit", record=msgspec.to_builtins(record))
    except ConnectionFailedError:
        drop_secrets(record.uid)
        raise
    return str(answer["run"])


def _raise(error: Exception) -> None:
    raise error
