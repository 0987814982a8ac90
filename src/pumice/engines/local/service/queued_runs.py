"""What the service writes about runs that no supervisor owns: queued, held, started, lost."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from pumice.engines.local.runs.recorder import append
from pumice.engines.local.scheduling.reservations import reservations_directory, turn
from pumice.engines.local.scheduling.run_queue import next_arrival
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.history.entries import Held, Queued, Resumed
from pumice.store.run_errors import InvalidOption
from pumice.store.run_names import is_directory_name
from pumice.store.run_record import RunRecord


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
