"""Runs whose process is gone: what becomes of them.

| A run without owner | becomes |
| --- | --- |
| finished | no longer active |
| queued, suspended | as it is |
| in the foreground | Terminated, ClientLost: it ended with its client |
| detached, active | queued again with its arrival: SupervisorLost, or MachineRestarted |
| detached, the third time in ten minutes | Failed, EngineCrashed |
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
from contextlib import suppress
from typing import Final

from pumice.engines.local.clock import wall_clock
from pumice.engines.local.outcome import SUSPENDED
from pumice.engines.local.runs.journal import read_journal
from pumice.engines.local.runs.lost_runs import CLIENT_LOST, close_lost_run, restore_outcome
from pumice.engines.local.runs.owner_lock import OwnerLock, boot_id, read_owner
from pumice.engines.local.runs.run_record import FOREGROUND, QUEUED
from pumice.engines.local.runs.run_store import OwnedRun, RunStore, StoredRun
from pumice.engines.local.scheduling.run_queue import is_waiting
from pumice.engines.local.service import queued_runs
from pumice.model.vocabulary import Phase

SUPERVISOR_LOST: Final = "SupervisorLost"
MACHINE_RESTARTED: Final = "MachineRestarted"
ENGINE_CRASHED: Final = "EngineCrashed"
_MOST_LOSSES: Final = 3
_WITHIN: Final = dt.timedelta(minutes=10)


def recover(store: RunStore, run: StoredRun) -> str:
    """Do what is to be done for a run that may have lost its owner. Return a line about it; empty if there is none.

    Blocks until the processes of a lost sandbox are gone, so that no pod runs twice. Raises OSError.
    """
    lock = OwnerLock.take(run.directory)
    if lock is None:
        return ""
    try:
        restore_outcome(run)
        status = run.status()
        if status.finished is not None:
            store.finish(run)
            return ""
        if status.reason == SUSPENDED:
            return ""
        if run.record.mode == FOREGROUND:
            close_lost_run(store, OwnedRun(run, lock), CLIENT_LOST, wall_clock())
            return f"{run.ref} ended with the process that ran it"
        if not status.arrival:
            # Stored, and not yet queued.
            queued_runs.queue(store, run)
            return ""
        if is_waiting(status) or status.phase == Phase.ABORTED:
            return ""
        _wait_for_sandbox(store, run)
        return _lost(store, run)
    finally:
        lock.release()


def _lost(store: RunStore, run: StoredRun) -> str:
    now = wall_clock()
    losses = [entry for entry in read_journal(run.directory)[0] if entry.kind == queued_runs.LOST_ENTRY]
    recent = [entry for entry in losses if now - entry.time < _WITHIN]
    restarted = (read_owner(run.directory).boot or run.record.boot) != boot_id()
    reason = MACHINE_RESTARTED if restarted else SUPERVISOR_LOST
    cause = "the machine was restarted" if restarted else "the process that ran it was killed"
    if not restarted and len(recent) + 1 >= _MOST_LOSSES:
        message = f"{cause} {len(recent) + 1} times within {_WITHIN.seconds // 60} minutes"
        data = {"reason": ENGINE_CRASHED, "message": message}
        changes = {"phase": Phase.FAILED, "finished": now, "exit_code": 1, "verdict": (f"{run.ref} failed: {message}",)}
        queued_runs.append(run, queued_runs.LOST_ENTRY, data, **changes, reason=ENGINE_CRASHED, message=message)
        store.finish(run)
        return f"{run.ref} failed: {message}"
    suspend = restarted and run.record.options.get("after_reboot") == "suspend"
    data = {"reason": reason, "message": cause}
    changes = {"phase": Phase.ABORTED if suspend else QUEUED, "reason": SUSPENDED if suspend else reason}
    queued_runs.append(run, queued_runs.LOST_ENTRY, data, **changes, message=cause, note=cause, started=None, gpus=())
    if suspend:
        return f"{run.ref} was interrupted: {cause}; it is suspended: pumice resume {run.ref}"
    return f"{run.ref} was interrupted: {cause}; it is queued again"


def _wait_for_sandbox(store: RunStore, run: StoredRun) -> None:
    """Wait until the last process of the run's sandbox has ended, which follows its supervisor within moments."""
    for path in (store.state / "stage").glob(f"{run.record.uid}-*/lock"):
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            finally:
                os.close(lock)
