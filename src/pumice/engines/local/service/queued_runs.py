"""What the service writes of runs that no supervisor owns: queued, and recovered after their process is gone.

| A run without owner | becomes |
| --- | --- |
| finished | no longer active |
| queued, suspended | as it is |
| asked to stop, or to be suspended | stopped, suspended |
| in the foreground | Terminated, ClientLost: it ended with its client |
| detached, active | queued again with its arrival: SupervisorLost, or MachineRestarted |
| detached, the third time in ten minutes | Failed, EngineCrashed |
"""

from __future__ import annotations

import datetime as dt
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from pumice.diagnosis.outcome import SUSPENDED_BY_YOU
from pumice.engines.local.clock import wall_clock
from pumice.engines.local.daemon.runtime_files import remove_runtime_files
from pumice.engines.local.runs import append, catch_up, close_lost_run, wait_for_sandbox
from pumice.engines.local.scheduling.reservations import reservations_directory, turn
from pumice.engines.local.scheduling.run_queue import is_waiting, next_arrival
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.store.files.owner_lock import OwnerLock, boot_id, read_owner
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.run_directory import SCRATCH
from pumice.store.files.run_store import OwnedRun, RunStore, StoredRun
from pumice.store.history.entries import Held, Lost, Queued, Resumed
from pumice.store.history.run_history import RunHistory
from pumice.store.run_end import CLIENT_LOST
from pumice.store.run_errors import InvalidOption
from pumice.store.run_names import is_directory_name
from pumice.store.run_record import FOREGROUND, RunRecord

SUPERVISOR_LOST: Final = "SupervisorLost"
MACHINE_RESTARTED: Final = "MachineRestarted"
ENGINE_CRASHED: Final = "EngineCrashed"
_MOST_LOSSES: Final = 3
_WITHIN: Final = dt.timedelta(minutes=10)


def submit(store: RunStore, record: RunRecord) -> StoredRun:
    """Store a run and queue it. The same uid again yields the same run: a client may not have got the answer.

    Raises OSError, and RefusedError for a record that names no directory.
    """
    for name in (record.namespace, record.name, record.uid):
        if not is_directory_name(name):
            raise InvalidOption(f"{name!r}: cannot be the name of a run")
    run = find(store, record)
    if run is None:
        directory = store.reserve(record.namespace, record.name)
        owned = store.create(directory, msgspec.structs.replace(record, number=int(directory.name)))
        run, lock = owned.run, owned.lock
    elif (status := run.status()).arrival or status.needs_resume:
        return run
    elif (taken := OwnerLock.take(run.directory)) is not None:
        lock = taken
    else:
        return run
    try:
        if record.options.get("hold"):
            append(run, Held())
        else:
            queue(store, run)
    except OSError:
        # The submitter gets an error, so the run must not start later.
        with suppress(OSError):
            store.remove(run)
        raise
    finally:
        lock.release()
    return run


def find(store: RunStore, record: RunRecord) -> StoredRun | None:
    """Return the run with the uid of the record. Removes what a crash left of one that was never stored."""
    link = store.active / record.uid
    run = store.load(link) if link.is_symlink() else None
    if run is not None and run.record.uid == record.uid:
        return StoredRun(Path(os.path.realpath(link)), run.record)
    link.unlink(missing_ok=True)
    return next((run for run in store.all_runs(record.namespace, record.name) if run.record.uid == record.uid), None)


def queue(store: RunStore, run: StoredRun) -> None:
    """Give a run its number in the queue. Its owner lock is held."""
    directory = reservations_directory(store.state)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with turn(directory):
        arrival = next_arrival(store.state)
    append(run, Queued(arrival))


def resume(store: RunStore, run: StoredRun) -> None:
    """Queue a suspended run: it arrives now, and runs in the background. Its owner lock is held."""
    run = store.detach(run)
    append(run, Resumed())
    queue(store, run)


def recover(store: RunStore, run: StoredRun) -> str:
    """Recover a run that may have lost its owner. Return a message about it; empty if there is nothing to report.

    Blocks until the processes of a lost sandbox are gone, so that no pod runs twice. Raises OSError.
    """
    lock = OwnerLock.take(run.directory)
    if lock is None:
        return ""
    with lock:
        status = catch_up(run)
        if status.finished is not None:
            wait_for_sandbox(store, run)
            _clean_up(store, run)
            return ""
        history = run.history()
        if history.stop is not None:
            wait_for_sandbox(store, run)
            killed = "the process that ran it was killed meanwhile"
            if history.stop.reason != SUSPENDED:
                close_lost_run(store, OwnedRun(run, lock), history.stop)
                return f"{run.ref} was stopped; {killed}"
            append(run, Lost(SUPERVISOR_LOST, SUSPENDED_BY_YOU, Phase.ABORTED))
            return f"{run.ref} is suspended; {killed}: pumice resume {run.ref}"
        if status.needs_resume:
            return ""
        if run.record.mode == FOREGROUND:
            close_lost_run(store, OwnedRun(run, lock), CLIENT_LOST)
            return f"{run.ref} ended with the process that ran it"
        if not status.arrival:
            # Stored, or detached, and not yet queued.
            wait_for_sandbox(store, run)
            queue(store, run)
            return ""
        if is_waiting(status):
            return ""
        wait_for_sandbox(store, run)
        return _lost(store, run, history)


def _lost(store: RunStore, run: StoredRun, history: RunHistory) -> str:
    now = wall_clock()
    recent = [time for time in history.losses if now - time < _WITHIN]
    restarted = (read_owner(run.directory).boot or run.record.boot) != boot_id()
    reason = MACHINE_RESTARTED if restarted else SUPERVISOR_LOST
    cause = "the machine was restarted" if restarted else "the process that ran it was killed"
    if not restarted and len(recent) + 1 >= _MOST_LOSSES:
        message = f"{cause} {len(recent) + 1} times within {_WITHIN.seconds // 60} minutes"
        append(run, Lost(ENGINE_CRASHED, message, Phase.FAILED))
        _clean_up(store, run)
        return f"{run.ref} failed: {message}"
    if restarted and run.record.options.get("after_reboot") == "suspend":
        append(run, Lost(reason, cause, Phase.ABORTED))
        return f"{run.ref} was interrupted: {cause}; it is suspended: pumice resume {run.ref}"
    append(run, Lost(reason, cause))
    return f"{run.ref} was interrupted: {cause}; it is queued again"


def _clean_up(store: RunStore, run: StoredRun) -> None:
    """Remove what the process of a run that has ended left behind."""
    with suppress(OSError):
        remove_tree(run.directory / SCRATCH)
    store.finish(run)
    remove_runtime_files(run.record.uid)
