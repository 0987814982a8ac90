"""Recovery: what happens to runs whose process is gone.

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
import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from pumice.engines.local.clock import wall_clock
from pumice.engines.local.daemon.runtime_files import remove_runtime_files
from pumice.engines.local.outcome import CLIENT_LOST, Stop
from pumice.engines.local.runs.journal import Entry, EntryKind, read_journal
from pumice.engines.local.runs.lost_runs import close_lost_run, requested_stop, restore_outcome
from pumice.engines.local.runs.owner_lock import OwnerLock, boot_id, read_owner
from pumice.engines.local.runs.run_directory import SCRATCH
from pumice.engines.local.runs.run_record import FOREGROUND, QUEUED
from pumice.engines.local.runs.run_store import OwnedRun, RunStore, StoredRun
from pumice.engines.local.scheduling.run_queue import is_waiting
from pumice.engines.local.service import queued_runs
from pumice.engines.local.state.remove_tree import remove_tree
from pumice.model.vocabulary import SUSPENDED, Phase

SUPERVISOR_LOST: Final = "SupervisorLost"
MACHINE_RESTARTED: Final = "MachineRestarted"
ENGINE_CRASHED: Final = "EngineCrashed"
_MOST_LOSSES: Final = 3
_WITHIN: Final = dt.timedelta(minutes=10)


def recover(store: RunStore, run: StoredRun) -> str:
    """Recover a run that may have lost its owner. Return a message about it; empty if there is nothing to report.

    Blocks until the processes of a lost sandbox are gone, so that no pod runs twice. Raises OSError.
    """
    lock = OwnerLock.take(run.directory)
    if lock is None:
        return ""
    try:
        restore_outcome(run)
        status = run.status()
        if status.finished is not None:
            wait_for_sandbox(store, run)
            _clean_up(store, run)
            return ""
        if status.needs_resume:
            return ""
        if (stop := requested_stop(run)) is not None:
            wait_for_sandbox(store, run)
            return _stopped(store, OwnedRun(run, lock), stop)
        if run.record.mode == FOREGROUND:
            close_lost_run(store, OwnedRun(run, lock), CLIENT_LOST, wall_clock())
            return f"{run.ref} ended with the process that ran it"
        if not status.arrival:
            # Stored, or detached, and not yet queued.
            wait_for_sandbox(store, run)
            queued_runs.queue(store, run)
            return ""
        if is_waiting(status):
            return ""
        wait_for_sandbox(store, run)
        return _lost(store, run)
    finally:
        lock.release()


def _stopped(store: RunStore, owned: OwnedRun, stop: Stop) -> str:
    run = owned.run
    if stop.reason != SUSPENDED:
        close_lost_run(store, owned, stop, wall_clock())
        return f"{run.ref} was stopped; the process that ran it was killed meanwhile"
    _suspend(run, SUPERVISOR_LOST, stop.message)
    return f"{run.ref} is suspended; the process that ran it was killed meanwhile: pumice resume {run.ref}"


def _suspend(run: StoredRun, reason: str, message: str) -> None:
    data = {"reason": reason, "message": message}
    changes = {"phase": Phase.ABORTED, "reason": SUSPENDED, "message": message, "note": message, "started": None}
    _record_loss(run, data, **changes, gpus=(), stopped=True)


def _lost(store: RunStore, run: StoredRun) -> str:
    now = wall_clock()
    losses = [entry for entry in _earlier_entries(run) if entry.kind == EntryKind.LOST]
    recent = [entry for entry in losses if now - entry.time < _WITHIN]
    restarted = (read_owner(run.directory).boot or run.record.boot) != boot_id()
    reason = MACHINE_RESTARTED if restarted else SUPERVISOR_LOST
    cause = "the machine was restarted" if restarted else "the process that ran it was killed"
    if not restarted and len(recent) + 1 >= _MOST_LOSSES:
        message = f"{cause} {len(recent) + 1} times within {_WITHIN.seconds // 60} minutes"
        data = {"reason": ENGINE_CRASHED, "message": message}
        ended = {"phase": Phase.FAILED, "finished": now, "exit_code": 1, "verdict": (f"{run.ref} failed: {message}",)}
        _record_loss(run, data, **ended, reason=ENGINE_CRASHED, message=message, note=message)
        _clean_up(store, run)
        return f"{run.ref} failed: {message}"
    if restarted and run.record.options.get("after_reboot") == "suspend":
        _suspend(run, reason, cause)
        return f"{run.ref} was interrupted: {cause}; it is suspended: pumice resume {run.ref}"
    data, changes = {"reason": reason, "message": cause}, {"phase": QUEUED, "reason": reason, "message": cause}
    _record_loss(run, data, **changes, note=cause, started=None, gpus=())
    return f"{run.ref} was interrupted: {cause}; it is queued again"


def _clean_up(store: RunStore, run: StoredRun) -> None:
    """Remove what the process of a run that has ended left behind."""
    with suppress(OSError):
        remove_tree(run.directory / SCRATCH)
    store.finish(run)
    remove_runtime_files(run.record.uid)


def _earlier_entries(run: StoredRun) -> list[Entry]:
    """Return the journal without this loss, which a service may have recorded before it was killed."""
    entries = read_journal(run.directory)[0]
    return entries[:-1] if entries and entries[-1].kind == EntryKind.LOST else entries


def _record_loss(run: StoredRun, data: Mapping[str, str], **changes: object) -> None:
    """Record that the run lost its process, once for each process, and its pods with it."""
    entries = read_journal(run.directory)[0]
    changes["pods"] = msgspec.structs.replace(run.status().pods, running=0, pending=0)
    if len(entries) == len(_earlier_entries(run)):
        queued_runs.append(run, EntryKind.LOST, data, **changes)
    else:
        run.write_status(msgspec.structs.replace(run.status(), seq=entries[-1].seq, **changes))


def wait_for_sandbox(store: RunStore, run: StoredRun) -> None:
    """Wait until the last process of the run's sandbox has ended, which follows its supervisor within moments."""
    for path in (store.state / "stage").glob(f"{run.record.uid}-*/lock"):
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            finally:
                os.close(lock)
