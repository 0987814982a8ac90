"""Submits a run: checks it as `run` would, stores it and puts it into the queue of the service."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.local.daemon.connections import AnswerLostError, encode
from pumice.engines.local.preparation.new_record import new_record
from pumice.engines.local.preparation.queue_position import check_room
from pumice.engines.local.preparation.run_plan import check, hold_images
from pumice.engines.local.scheduling.machine import read_machine
from pumice.engines.local.service.on_demand import ask_service
from pumice.engines.local.supervisor.secret_values import drop_secrets, keep_secrets
from pumice.store.code.recording import code_of
from pumice.store.code.run_code import write_code
from pumice.store.code.snapshots import copy_note, drop_snapshot, take_snapshot
from pumice.store.events import Emitter
from pumice.store.files.run_store import RunStore
from pumice.store.files.state_directory import state_error
from pumice.store.run_errors import RunError
from pumice.store.run_record import DETACHED, RunRecord
from pumice.store.run_request import RunRequest

_UNNUMBERED = 0  # the service gives it a number


class CheckedRun(Struct, frozen=True):
    """A run that can be stored: nothing keeps it from starting but a busy machine."""

    request: RunRequest
    record: RunRecord
    note: str = ""  # said before it is stored


def check_run(request: RunRequest, now: dt.datetime) -> CheckedRun:
    """Check a run as `run` would. Raises RunError."""
    plan = check(replace(request, options=replace(request.options, mode=DETACHED)), read_machine(), os.environ)
    with hold_images(plan, Emitter([], _raise)):
        if not request.options.wait:
            check_room(plan)
        record = new_record(plan, _UNNUMBERED, now)
    # Before the service is started, which cannot work with such a state directory.
    encode(msgspec.to_builtins(record))
    settings = plan.request.options.settings
    return CheckedRun(plan.request, record, copy_note(settings) if settings.snapshot else "")


async def store_run(run: CheckedRun, environ: Mapping[str, str] = os.environ) -> str:
    """Store and queue a run; return its name, `NAME:N`. Raises RunError, before anything is stored."""
    record, settings = run.record, run.request.options.settings
    state = settings.state
    keep_secrets(record.uid, run.request)
    try:
        if settings.snapshot:
            await asyncio.to_thread(take_snapshot, settings, record.uid)
    except RunError:
        drop_secrets(record.uid)
        raise
    except OSError as error:
        drop_secrets(record.uid)
        raise state_error(state, error) from error
    code = asyncio.create_task(asyncio.to_thread(code_of, settings))  # beside the service, which may start the run
    try:
        answer = await ask_service(state, environ, "submit", record=msgspec.to_builtins(record))
    except AnswerLostError:
        # The run may be stored, and need them.
        raise
    except RunError:
        drop_secrets(record.uid)
        if settings.snapshot:
            drop_snapshot(state, record.uid)
        raise
    stored = RunStore(state).find(str(answer["run"]), record.namespace)
    with suppress(OSError):  # as on a full disk; `get --code` says that nothing is recorded
        write_code(stored.directory, await code)
    return stored.ref


def _raise(error: Exception) -> None:
    raise error
