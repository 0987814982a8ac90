"""Runs whose process was killed: foreground runs end with their client, so they are closed when the next run starts."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from pumice.diagnosis.outcome import StopReason
from pumice.engines.local.daemon.runtime_files import remove_runtime_files
from pumice.engines.local.runs.recorder import append, catch_up
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.store.files.file_lock import wait_until_free
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.run_directory import SCRATCH
from pumice.store.files.run_store import OwnedRun, RunStore, StoredRun
from pumice.store.history.entries import Lost
from pumice.store.run_end import CLIENT_LOST, TERMINATED, Stop
from pumice.store.run_errors import StoreError
from pumice.store.run_record import FOREGROUND

STOPPED: Final = Stop(TERMINATED, StopReason.STOPPED, "it was stopped")


def settle_lost_runs(store: RunStore) -> None:
    """Close foreground runs that no process owns, and empty the trash."""
    for run in store.active_runs():
        if run.record.mode == FOREGROUND and run.is_of_this_host and run.has_our_format:
            # Continue after a failure: files that cannot be read or written.
            with suppress(OSError, StoreError):
                lock = OwnerLock.take(run.directory)
                if lock is not None:
                    with lock:
                        stop = run.history().stop or CLIENT_LOST
                        # The service completes a suspension.
                        if stop.reason != SUSPENDED:
                            close_lost_run(store, OwnedRun(run, lock), stop)
    trash: list[Path] = []
    with suppress(OSError):
        trash = list(store.trash.iterdir())
    for left in trash:
        with suppress(OSError):
            remove_tree(left)


def close_lost_run(store: RunStore, owned: OwnedRun, stop: Stop) -> None:
    """Record that a run ended with its process, or was stopped while it had none. It stays listed; scratch files go."""
    run = owned.run
    # Its process may have been killed after it had recorded how the run ended.
    status = catch_up(run)
    if status.needs_resume and stop == CLIENT_LOST:
        return
    with suppress(OSError):
        remove_tree(run.directory / SCRATCH)
    if status.finished is None:
        append(run, Lost(stop.reason, stop.message or STOPPED.message, Phase.TERMINATED, stop.code))
    store.finish(run)
    remove_runtime_files(run.record.uid)


def wait_for_sandbox(store: RunStore, run: StoredRun) -> None:
    """Wait until the last process of the run's sandbox has ended, which follows its supervisor within moments."""
    for path in (store.state / "stage").glob(f"{run.record.uid}-*/lock"):
        wait_until_free(path)
