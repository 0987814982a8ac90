"""What the service writes about runs that no supervisor owns: queued, held, started, lost."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.outcome import NO_ROOM
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.runs.journal import EntryKind, Journal, SequenceNumbers
from pumice.engines.local.runs.owner_lock import OwnerLock
from pumice.engines.local.runs.run_names import is_directory_name
from pumice.engines.local.runs.run_record import QUEUED, RunRecord, RunStatus
from pumice.engines.local.runs.run_store import RunStore, StoredRun
from pumice.engines.local.scheduling.reservations import reservations_directory, turn
from pumice.engines.local.scheduling.run_queue import next_arrival
from pumice.engines.local.why import Why, sentence
from pumice.model.vocabulary import SUSPENDED, Phase


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
    elif _is_new(run.status()) and (taken := OwnerLock.take(run.directory)) is not None:
        lock = taken
    else:
        return run
    try:
        if record.options.get("hold"):
            note = f"held; pumice resume {run.ref} queues it"
            append(run, EntryKind.HELD, {}, phase=Phase.ABORTED, reason=SUSPENDED, note=note)
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


def _is_new(status: RunStatus) -> bool:
    return not status.arrival and not status.needs_resume


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
    append(run, EntryKind.QUEUED, {"arrival": arrival}, arrival=arrival, phase=QUEUED, held=None, started=None)


def resume(store: RunStore, run: StoredRun) -> None:
    """Queue a suspended run: it arrives now, and runs in the background. Its owner lock is held."""
    run = store.detach(run)
    append(
        run,
        EntryKind.RESUMED,
        {},
        reason="",
        message="",
        finished=None,
        exit_code=None,
        verdict=(),
        verdict_data=None,
        stopped=False,
        note="",
    )
    queue(store, run)


def hold(run: StoredRun, status: RunStatus, why: Why) -> None:
    """Record in the status why a run waits, unless a process owns it by now, which writes its own status."""
    text = sentence(why)
    if status.held is not None and status.note == text:
        return
    lock = OwnerLock.take(run.directory)
    if lock is None:
        return
    with suppress(OSError):
        # On a full disk it waits all the same.
        run.write_status(msgspec.structs.replace(run.status(), held=why.since, note=text))
    lock.release()


def start(run: StoredRun, gpus: tuple[str, ...]) -> None:
    """Record that a run has its room. Its owner lock is held."""
    append(run, EntryKind.STARTED, {"gpus": gpus}, started=wall_clock(), gpus=gpus, note="", reason="", message="")


def longest_wait(record: RunRecord) -> dt.timedelta | None:
    """Return how long the run may wait for its room; None if as long as it takes."""
    options = record.options
    seconds = options.get("max_wait") if options.get("wait", True) else 0.0
    return None if seconds is None else dt.timedelta(seconds=seconds)


def give_up(store: RunStore, run: StoredRun, longest: dt.timedelta, why: Why) -> None:
    """End a run that waited longer than it may, unless a process owns it meanwhile."""
    lock = OwnerLock.take(run.directory)
    if lock is None:
        return
    try:
        when = f"within {longest.total_seconds():g}s" if longest else "now, and it may not wait"
        message = f"no room {when}: {sentence(why)}"
        changes: dict[str, Any] = {"phase": Phase.TERMINATED, "reason": "NoRoom", "message": message, "note": message}
        changes |= {"verdict": (f"{run.ref}: {message}",), "finished": wall_clock(), "exit_code": NO_ROOM}
        append(run, EntryKind.NO_ROOM, {"message": message}, **changes)
        store.finish(run)
    finally:
        lock.release()


def append(run: StoredRun, kind: str, data: Mapping[str, Any], **changes: Any) -> RunStatus:
    """Append to the journal of a run and write its status. Its owner lock is held."""
    journal = Journal(run.directory, SequenceNumbers(), wall_clock, elapsed)
    journal.open()
    try:
        entry = journal.append(kind, data, sync=True)
    finally:
        journal.close()
    status = msgspec.structs.replace(run.status(), seq=entry.seq, **changes)
    run.write_status(status)
    return status
