"""Makes changes to runs of this machine, and runs them again."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pumice.client.backend import (
    Change,
    DetachRun,
    KillPod,
    RemoveRun,
    RestartRun,
    ResumeRun,
    ScaleRun,
    StopRun,
    SuspendRun,
    wait,
)
from pumice.client.local.connections import call, connected
from pumice.client.local.liveness import check_changeable
from pumice.client.local.run_reader import ref_of
from pumice.engines.local.daemon.connections import PATIENCE
from pumice.engines.local.daemon.runtime_files import remove_runtime_files
from pumice.engines.local.runs import STOPPED, append, close_lost_run
from pumice.engines.local.scheduling.run_queue import is_waiting
from pumice.engines.local.service import queued_runs
from pumice.engines.local.stored_data import claims_of
from pumice.engines.local.supervisor.owner_changes import change as change_owned
from pumice.engines.local.supervisor.owner_changes import lock_of_suspended, scale_waiting, suspend_waiting
from pumice.engines.local.supervisor.secret_values import add_secrets
from pumice.model.problem import Command, Option
from pumice.model.text import shown_words
from pumice.model.vocabulary import SERVER_FIELDS
from pumice.runtime.offline_context import restore_admitted
from pumice.store.events import RequestAccepted
from pumice.store.files.owner_lock import OwnerLock, read_owner
from pumice.store.files.run_store import OwnedRun, StoredRun
from pumice.store.options import decode_options
from pumice.store.run_errors import ConnectionFailed, WrongState
from pumice.store.run_request import RunRequest

if TYPE_CHECKING:
    from pumice.client.local.local_backend import LocalBackend

_POLL: Final = 0.1
_SHORT_PATIENCE: Final = 2.0  # seconds, where a process that does not respond is killed
_STOP_SECONDS: Final = 60


async def make_change(backend: LocalBackend, run: StoredRun, change: Change) -> tuple[str, ...]:
    """Return the names of what else it affected. Raises RunError."""
    check_changeable(run)
    match change:
        case StopRun():
            await _stop(backend, run, change)
        case SuspendRun():
            ask = partial(call, run, "suspend")
            await change_owned(lambda: suspend_waiting(run), ask, lambda: is_waiting(run.status()))
        case ResumeRun():
            await _resume(backend, run, change)
        case RestartRun():
            await call(run, "restart")
        case ScaleRun(replicas):
            ask = partial(call, run, "scale", replicas=dict(replicas))
            if await change_owned(lambda: scale_waiting(run, replicas), ask, lambda: is_waiting(run.status())):
                await backend.wake_service()
        case KillPod(pod, number):
            return (pod,) if await call(run, "kill", pod=pod, signal=int(number)) else ()
        case DetachRun():
            return (str(await call(run, "detach")),)
        case RemoveRun():
            return await _remove(backend, run, change)
    return ()


def check_change(backend: LocalBackend, run: StoredRun, change: Change) -> None:
    """Raises WrongState for a run that is to be removed and has not finished, RunError for one of another machine."""
    check_changeable(run)
    if isinstance(change, RemoveRun) and not change.force and not backend.summary(run).is_finished:
        raise _not_over(run, "is running" if run.is_owned else "has not finished")


async def _stop(backend: LocalBackend, run: StoredRun, change: StopRun) -> None:
    async def ask() -> Any:
        async with connected(run, _SHORT_PATIENCE if change.force else PATIENCE) as connection:
            return await connection.call("stop", force=change.force, grace=change.grace)

    def close_lost() -> bool:
        """Close a run that no process owns; False if one owns it."""
        lock = OwnerLock.take(run.directory) if run.status().finished is None else None
        if lock is not None:
            close_lost_run(backend.store, OwnedRun(run, lock), STOPPED)
            lock.release()
        return run.status().finished is not None

    try:
        await change_owned(close_lost, ask, lambda: True)
    except ConnectionFailed:
        owner = read_owner(run.directory)
        if not change.force or not owner.is_alive:
            raise
        # Whoever notices its end first, its client or the service, finds who asked for it. It cannot write meanwhile.
        os.kill(owner.pid, signal.SIGSTOP)
        if run.history().stop is None:
            append(run, RequestAccepted(STOPPED))
        os.kill(owner.pid, signal.SIGKILL)
        while read_owner(run.directory) == owner and run.is_owned:  # noqa: ASYNC110 - another process
            await asyncio.sleep(_POLL)
        # The service may recover the run before it is closed.
        await _stop(backend, run, StopRun(force=True))


async def _resume(backend: LocalBackend, run: StoredRun, change: ResumeRun) -> None:
    lock = await lock_of_suspended(run)
    if lock is None:
        await backend.revive([run])
        raise WrongState(f"{run.ref} is not suspended: {run.status().outcome}")
    try:
        if change.env or change.documents:
            add_secrets(run.record.uid, change.env, change.documents)
        queued_runs.resume(backend.store, run)
    finally:
        lock.release()
    await backend.wake_service()


async def _remove(backend: LocalBackend, run: StoredRun, change: RemoveRun) -> tuple[str, ...]:
    check_change(backend, run, change)
    if not backend.summary(run).is_finished:
        await _stop(backend, run, StopRun(force=True))
        await wait(backend, [ref_of(run)], timeout=_STOP_SECONDS)
    deadline = time.monotonic() + PATIENCE
    # The process of a run that has just finished still closes its record.
    while (lock := OwnerLock.take(run.directory)) is None:
        if time.monotonic() > deadline:
            raise _not_over(run, "is running")
        await asyncio.sleep(_POLL)
    try:
        backend.store.remove(run)
        remove_runtime_files(run.record.uid)
    finally:
        lock.release()
    removed = []
    for claim in claims_of(run, backend.store) if change.claims else ():
        removed.append(f"{claim.name} ({claim.size})")
        claim.remove()
    return tuple(removed)


def _not_over(run: StoredRun, what: str) -> WrongState:
    return WrongState(f"{run.ref} {what}", (Command("stop", run.ref), ", or ", Option("force", True)))


def request_again(run: StoredRun) -> RunRequest:
    """Return the request of the same run. Raises WrongState if values that it needs are not stored."""
    record = run.record
    if run.is_opened:
        raise WrongState(f"{run.ref}: {run.elsewhere}, to be read only")
    if record.secrets:
        names = ", ".join(record.secrets)
        after = f" -- {shown_words(record.args)}" if record.args else ""
        raise WrongState(f"{run.ref}: the values of {names} are not stored", f"pumice submit {record.file}{after}")
    metadata = {name: value for name, value in record.job["metadata"].items() if name not in SERVER_FIELDS}
    admitted = restore_admitted({**record.job, "metadata": metadata}, record.version)
    # The Job is stored as it was scaled.
    options = replace(decode_options(record.options), scale={})
    return RunRequest(admitted, options, record.documents, run.source)
