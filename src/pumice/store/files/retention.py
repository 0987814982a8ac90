"""Which finished runs are removed: by age, by number of runs of one name, and by size. Pure, but for `prune`.

Completed runs go first, the oldest first among equals. Runs with `--keep`, claims and images stay.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pumice.model.text import plural
from pumice.model.vocabulary import Phase
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_directory import KEPT
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.settings import Retention

_MOST_NAMED: Final = 3
_SHARE: Final = 10  # a tenth of the file system at most


class FinishedRun(Struct, frozen=True):
    run: StoredRun
    name: tuple[str, str]  # namespace and name
    number: int
    finished: dt.datetime
    completed: bool
    size: int


def expired(runs: Sequence[FinishedRun], retention: Retention, now: dt.datetime) -> list[FinishedRun]:
    """Return the runs to remove, in this order."""
    order = sorted(runs, key=lambda each: (not each.completed, each.finished, each.number))
    oldest = now - dt.timedelta(days=retention.keep_days)
    count = Counter(each.name for each in runs)
    size = sum(each.size for each in runs)
    removed = []
    for each in order:
        if each.finished < oldest or count[each.name] > retention.keep_per_name or size > retention.max_size:
            removed.append(each)
            count[each.name] -= 1
            size -= each.size
    return removed


def prune(store: RunStore, retention: Retention, now: dt.datetime) -> list[str]:
    """Remove the expired runs; return the names of those that were removed."""
    return remove_runs(store, expired_runs(store, retention, now))


def expired_runs(store: RunStore, retention: Retention, now: dt.datetime, namespace: str = "") -> list[FinishedRun]:
    """Return the runs that `prune` would remove, of one namespace or of all. Raises OSError."""
    found = os.statvfs(store.state)
    most = min(retention.max_size, found.f_blocks * found.f_frsize // _SHARE)
    return expired(finished_runs(store, namespace), replace(retention, max_size=most), now)


def remove_runs(store: RunStore, runs: Sequence[FinishedRun]) -> list[str]:
    """Remove runs that no process owns; return the names of those that were removed."""
    removed = []
    for each in runs:
        lock = None
        with suppress(OSError):
            lock = OwnerLock.take(each.run.directory)
        if lock is None:
            continue
        with suppress(OSError):
            store.remove(each.run)
            removed.append(each.run.ref)
        lock.release()
    return removed


def removal_text(removed: Sequence[str]) -> str:
    """Return the line that says which runs were removed."""
    more = len(removed) - _MOST_NAMED
    names = ", ".join(removed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    runs = plural(len(removed), "old run")
    return f"removed {runs}: {names}; [runs] in config.toml says how many are kept"


def finished_runs(store: RunStore, namespace: str = "") -> list[FinishedRun]:
    """Return the runs that may be removed, of one namespace or of all."""
    found = []
    for run in store.all_runs(namespace):
        status = run.status()
        is_ours = run.is_of_this_host and run.has_our_format
        if status.finished is None or not is_ours or (run.directory / KEPT).exists():
            continue
        name = (run.record.namespace, run.record.name)
        completed = status.phase == Phase.COMPLETED
        # The process of a run that was killed did not note its size.
        size = status.size or size_of(run.directory)
        found.append(FinishedRun(run, name, run.record.number, status.finished, completed, size))
    return found


def size_of(directory: Path) -> int:
    """Return the bytes that the files below a directory take."""
    total = 0
    for parent, _, files in os.walk(directory):
        for name in files:
            with suppress(OSError):
                total += os.lstat(f"{parent}/{name}").st_size  # without a Path for each of a thousand files
    return total
