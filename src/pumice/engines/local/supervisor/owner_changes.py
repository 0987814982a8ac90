"""Changes runs that wait or are suspended, which may get or lose their process at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from pumice.engines.local.clock import elapsed
from pumice.engines.local.preparation.new_record import gang_pods
from pumice.engines.local.preparation.scaling import fit_to_machine, gang, stored
from pumice.engines.local.runs import append, catch_up
from pumice.engines.local.scheduling.machine import read_machine
from pumice.engines.local.scheduling.run_queue import is_waiting
from pumice.plugins.shaping import pods
from pumice.runtime.offline_context import restore_admitted
from pumice.store.events import RequestAccepted
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_store import RECORD, StoredRun
from pumice.store.history.entries import Held
from pumice.store.options import decode_options
from pumice.store.run_errors import WrongState

_ENDS_WITHIN: Final = 5.0
_CHANGES_WITHIN: Final = 30.0
_POLL: Final = 0.1


async def lock_of_suspended(run: StoredRun) -> OwnerLock | None:
    """Take the owner lock of a run that is suspended; None if it is not.

    Its process has stored that the run is suspended, and may need a moment to end.
    """
    deadline = elapsed() + _ENDS_WITHIN
    while run.status().needs_resume and elapsed() < deadline:
        lock = OwnerLock.take(run.directory)
        if lock is not None and catch_up(run).needs_resume:
            return lock
        if lock is not None:
            lock.release()
        await asyncio.sleep(_POLL)
    return None


async def change(alone: Callable[[], bool], ask: Callable[[], Awaitable[Any]], again: Callable[[], bool]) -> bool:
    """Change a run that no process owns, else ask its process. Return whether no process was asked.

    It may get or lose its process meanwhile, and a reader that looks for an owner seems to be one for an instant: then
    both are tried again, as long as `again` says so. Raises RunError.
    """
    deadline = elapsed() + _CHANGES_WITHIN
    while not alone():
        try:
            await ask()
        except WrongState:
            if elapsed() > deadline or not again():
                raise
        else:
            return False
        await asyncio.sleep(_POLL)
    return True


def suspend_waiting(run: StoredRun) -> bool:
    """Take a run out of the queue until it is resumed. False if it does not wait. Raises OSError."""
    lock = OwnerLock.take(run.directory) if is_waiting(run.status()) else None
    if lock is None:
        return False
    with lock:
        # The journal may know of a start that the status does not.
        if not is_waiting(catch_up(run)):
            return False
        append(run, Held(suspended=True))
    return True


def scale_waiting(run: StoredRun, replicas: Mapping[str, int]) -> bool:
    """Change the numbers of pods with which a waiting or suspended run starts. False if it does not wait.

    Raises InvalidOption if the job cannot have them, and OSError.
    """
    status = run.status()
    lock = OwnerLock.take(run.directory) if is_waiting(status) or status.needs_resume else None
    if lock is None:
        return False
    with lock:
        status = catch_up(run)
        if not is_waiting(status) and not status.needs_resume:
            return False
        record = run.record
        admitted = stored(restore_admitted(record.job, record.version), replicas, run.history())
        admitted, _ = fit_to_machine(admitted, decode_options(record.options), read_machine())
        members = gang(admitted.job, [pod.manifest for pod in pods(admitted.job, admitted.plugins)])
        append(run, RequestAccepted(replicas=dict(replicas)))
        smaller = msgspec.structs.replace(record, gang=gang_pods(members))
        replace_file(run.directory / RECORD, msgspec.json.encode(smaller) + b"\n")
    return True
