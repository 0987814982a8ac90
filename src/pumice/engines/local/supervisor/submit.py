"""Submits a run: checks it as `run` would, stores it and puts it into the queue of the service."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.admit import admit
from pumice.engines.local.daemon.line_protocol import AnswerLostError, encoded
from pumice.engines.local.events import Emitter, RequestAccepted
from pumice.engines.local.preparation.new_record import gang_pods, new_record, options_of
from pumice.engines.local.preparation.run_preparation import prepared
from pumice.engines.local.preparation.scaling import fit_to_machine, stored
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.atomic_files import replace_file
from pumice.engines.local.runs.journal import EntryKind
from pumice.engines.local.runs.owner_lock import OwnerLock
from pumice.engines.local.runs.run_record import DETACHED, RunRecord
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import RECORD, OwnedRun, StoredRun
from pumice.engines.local.scheduling.fitting import gang
from pumice.engines.local.scheduling.machine import read_machine
from pumice.engines.local.scheduling.run_queue import is_waiting
from pumice.engines.local.service import queued_runs
from pumice.engines.local.service.on_demand import ask_service
from pumice.engines.local.supervisor.secret_values import drop_secrets, keep_secrets
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.plugins.shaping import pods
from pumice.runtime.offline_context import offline_context

_UNNUMBERED = Path("0")  # the service gives it a number


class CheckedRun(Struct, frozen=True):
    """A run that can be stored: nothing keeps it from starting but a busy machine."""

    request: RunRequest
    record: RunRecord


async def submit(request: RunRequest, now: dt.datetime, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the run, `NAME:N`. Raises RunError, before anything is stored."""
    return await store_run(check_run(request, now), environ)


def check_run(request: RunRequest, now: dt.datetime) -> CheckedRun:
    """Check a run as `run` would. Raises RunError."""
    options = replace(request.options, mode=DETACHED)
    request = replace(request, options=options, job=stored(request.job, options.scale))
    with prepared(request, Emitter([], _raise), dry=True) as plan:
        if not options.wait:
            plan.run.check_room(request.source)
        # As written: `--fit` and `--ignore` change it again when the run starts.
        job = replace(plan.admitted, written=request.job.written)
        record = new_record(replace(request, job=job, manifests=plan.manifests), _UNNUMBERED, now)
    # Before the service is started, which cannot work with such a state directory.
    encoded(msgspec.to_builtins(record))
    return CheckedRun(request, record)


async def store_run(run: CheckedRun, environ: Mapping[str, str] = os.environ) -> str:
    """Store and queue a run; return its name, `NAME:N`. Raises RunError, before anything is stored."""
    record, state = run.record, run.request.options.settings.state
    keep_secrets(record.uid, run.request)
    try:
        answer = await ask_service(state, environ, "submit", record=msgspec.to_builtins(record))
    except AnswerLostError:
        # The run may be stored, and need them.
        raise
    except RunError:
        drop_secrets(record.uid)
        raise
    return str(answer["run"])


def suspend_waiting(run: StoredRun) -> bool:
    """Take a run out of the queue until it is resumed. False if it does not wait. Raises OSError."""
    lock = OwnerLock.take(run.directory) if is_waiting(run.status()) else None
    if lock is None:
        return False
    changes = {"phase": Phase.ABORTED, "reason": SUSPENDED, "note": f"suspended; pumice resume {run.ref} queues it"}
    queued_runs.append(run, EntryKind.HELD, {}, **changes, stopped=True)
    lock.release()
    return True


def scale_waiting(run: StoredRun, replicas: Mapping[str, int]) -> bool:
    """Change the numbers of pods with which a waiting or suspended run starts. False if it does not wait.

    Raises InvalidOption if the job cannot have them, and OSError.
    """
    status = run.status()
    lock = OwnerLock.take(run.directory) if is_waiting(status) or status.needs_resume else None
    if lock is None:
        return False
    try:
        record = run.record
        admitted = stored(admit(record.job, offline_context()), replicas, OwnedRun(run, lock))
        admitted, _ = fit_to_machine(admitted, options_of(record.options), read_machine())
        members = gang(admitted.job, [pod.manifest for pod in pods(admitted.job, admitted.plugins)])
        queued_runs.append(run, RequestAccepted.__name__, {"replicas": dict(replicas)})
        smaller = msgspec.structs.replace(record, gang=gang_pods(members))
        replace_file(run.directory / RECORD, msgspec.json.encode(smaller) + b"\n")
    finally:
        lock.release()
    return True


def _raise(error: Exception) -> None:
    raise error
