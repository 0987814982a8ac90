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
from contextlib import suppress
from typing import Final

from pumice.diagnosis.outcome import SUSPENDED_BY_YOU
from pumice.engines.local.clock import wall_clock
from pumice.engines.local.daemon.runtime_files import remove_runtime_files
from pumice.engines.local.runs.lost_runs import close_lost_run, wait_for_sandbox
from pumice.engines.local.runs.recorder import append, catch_up
from pumice.engines.local.scheduling.run_queue import is_waiting
from pumice.engines.local.service import queued_runs
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.store.files.owner_lock import OwnerLock, boot_id, read_owner
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.run_directory import SCRATCH
from pumice.store.files.run_store import OwnedRun, RunStore, StoredRun
from pumice.store.history.entries import Lost
from pumice.store.history.run_history import RunHistory
from pumice.store.run_end import CLIENT_LOST
from pumice.store.run_record import FOREGROUND

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
            queued_runs.queue(store, run)
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
