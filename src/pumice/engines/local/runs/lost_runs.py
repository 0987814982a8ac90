"""Runs whose process was killed: foreground runs end with their client, so they are closed when the next run starts.

Also what an earlier Pumice stored: `runs/JOB-UID8` becomes `runs/NAMESPACE/JOB/N`, by age.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.daemon.runtime_files import remove_runtime_files
from pumice.engines.local.outcome import CLIENT_LOST, TERMINATED, Stop
from pumice.engines.local.run_errors import StoreError
from pumice.engines.local.runs.atomic_files import replace_file
from pumice.engines.local.runs.event_codec import stop_of
from pumice.engines.local.runs.journal import (
    EntryKind,
    Journal,
    SequenceNumbers,
    read_journal,
)
from pumice.engines.local.runs.outcome_status import journal_outcome
from pumice.engines.local.runs.owner_lock import OwnerLock
from pumice.engines.local.runs.run_directory import SCRATCH
from pumice.engines.local.runs.run_names import is_directory_name
from pumice.engines.local.runs.run_record import FOREGROUND, RunRecord
from pumice.engines.local.runs.run_store import OLD_JOB, RECORD, OwnedRun, RunStore, StoredRun
from pumice.engines.local.state.remove_tree import remove_tree
from pumice.engines.local.state.state_directory import host_name
from pumice.model.vocabulary import SUSPENDED, Phase

STOPPED: Final = Stop(TERMINATED, "Stopped", "it was stopped")
_OLD_EVENTS: Final = "events.jsonl"


def settle_lost_runs(store: RunStore, now: dt.datetime) -> None:
    """Close foreground runs that no process owns, empty the trash, and take over the runs of an earlier Pumice."""
    for run in store.active_runs():
        if run.record.mode == FOREGROUND and run.is_of_this_host and not run.is_newer:
            # One whose files cannot be read or written keeps no other from being closed.
            with suppress(OSError, StoreError):
                _settle(store, run, now)
    for left in _children(store.trash):
        with suppress(OSError):
            remove_tree(left)
    migrate(store)


def _settle(store: RunStore, run: StoredRun, now: dt.datetime) -> None:
    """Close a foreground run, unless a process owns it. Raises OSError and StoreError."""
    lock = OwnerLock.take(run.directory)
    if lock is None:
        return
    try:
        stop = requested_stop(run) or CLIENT_LOST
        # The service completes a suspension.
        if stop.reason != SUSPENDED:
            close_lost_run(store, OwnedRun(run, lock), stop, now)
    finally:
        lock.release()


def close_lost_run(store: RunStore, owned: OwnedRun, stop: Stop, now: dt.datetime) -> None:
    """Record that a run ended with its process, or was stopped while it had none. It stays listed; scratch files go."""
    run = owned.run
    # Its process may have been killed after it had recorded how the run ended.
    restore_outcome(run)
    status = run.status()
    stopped = stop != CLIENT_LOST
    if status.needs_resume and not stopped:
        return
    with suppress(OSError):
        remove_tree(run.directory / SCRATCH)
    if status.finished is None:
        message = stop.message or STOPPED.message
        journal = Journal(run.directory, SequenceNumbers(), wall_clock, elapsed)
        journal.open()
        entry = journal.append(EntryKind.LOST, {"reason": stop.reason, "message": message}, sync=True)
        journal.close()
        ended = msgspec.structs.replace(
            status,
            seq=entry.seq,
            phase=Phase.TERMINATED,
            reason=stop.reason,
            message=message,
            note=message,
            finished=now,
            exit_code=stop.code,
            stopped=stop.reason == STOPPED.reason,
            verdict=(f"{run.ref}: {message}",),
            pods=msgspec.structs.replace(status.pods, running=0, pending=0),
        )
        run.write_status(ended)
    store.finish(run)
    remove_runtime_files(run.record.uid)


def requested_stop(run: StoredRun) -> Stop | None:
    """Return the stop that the process of the run accepted, if it was killed before the run had ended."""
    for entry in reversed(read_journal(run.directory)[0]):
        if entry.kind in (EntryKind.STARTED, EntryKind.RESUMED):
            return None
        if (stop := stop_of(entry)) is not None:
            return stop
    return None


def restore_outcome(run: StoredRun) -> bool:
    """Write the status of a run whose journal ends with its outcome. False if it does not. Its owner lock is held."""
    before = run.status()
    status = None if before.finished is not None else journal_outcome(run.directory, run.record, before)
    if status is not None:
        run.write_status(status)
    return status is not None


def migrate(store: RunStore) -> None:
    """Take over the runs of an earlier Pumice, which had no numbers."""
    old = [each for each in _children(store.runs) if (each / OLD_JOB).is_file()]
    for directory in sorted(old, key=lambda each: each.stat().st_mtime_ns):
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # One that is damaged stays as it is.
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                # An earlier Pumice locked the directory of a run while it ran.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _migrate(store, directory)
        finally:
            os.close(lock)


def _migrate(store: RunStore, directory: Path) -> None:
    job: dict[str, Any] = json.loads((directory / OLD_JOB).read_bytes())
    metadata = job["metadata"]
    created = dt.datetime.fromtimestamp(directory.stat().st_mtime, dt.UTC)
    name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "default")
    if not (is_directory_name(name) and is_directory_name(namespace)):
        raise ValueError(f"{directory}: {namespace}/{name}: cannot be the name of a run")
    record = RunRecord(
        uid=str(metadata["uid"]),
        namespace=namespace,
        name=name,
        number=0,
        host=host_name(),
        boot="",
        created=created,
        job=job,
    )
    _write_old_status(StoredRun(directory, record), created)
    target = store.reserve(namespace, name)
    try:
        numbered = msgspec.structs.replace(record, number=int(target.name))
        replace_file(directory / RECORD, msgspec.json.encode(numbered) + b"\n")
        directory.rename(target)
    except OSError:
        store.give_up(target)
        raise
    (target / OLD_JOB).unlink()


def _write_old_status(run: StoredRun, finished: dt.datetime) -> None:
    """The last event of a run that ended was its verdict."""
    try:
        events = (run.directory / _OLD_EVENTS).read_text(encoding="utf-8").splitlines()
        verdict = json.loads(events[-1]) if events else {}
    except (OSError, ValueError):
        verdict = {}
    verdict = verdict if isinstance(verdict, dict) else {}
    ended = verdict.get("type") == "verdict"
    lines = tuple(str(verdict.get("message") or "").splitlines())
    status = msgspec.structs.replace(
        run.status(),
        phase=str(verdict.get("phase") or "") if ended else Phase.TERMINATED,
        reason=str(verdict.get("reason") or "") if ended else CLIENT_LOST.reason,
        exit_code=int(verdict.get("code") or 0) if ended else 1,
        verdict=lines,
        note=lines[0] if lines else "",
        finished=finished,
    )
    run.write_status(status)


def _children(directory: Path) -> Iterable[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
