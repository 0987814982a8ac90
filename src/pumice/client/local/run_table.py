"""The list of all runs of this machine, for ten thousand of them: what has not changed is not read again."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pumice.client.backend import RunRef
from pumice.client.local.run_reader import RunReader, ref_of
from pumice.client.observer import ListedRun
from pumice.diagnosis.outcome import Outcome
from pumice.store.files.run_store import OTHER_FORMAT, RECORD, STATUS, RunStore, StoredRun, read_status
from pumice.store.run_record import RunStatus

_EVERYTHING: Final = 15.0  # seconds until runs that have ended are looked at again


@dataclass(slots=True)
class RunTable:
    reader: RunReader
    clock: Callable[[], float] = time.monotonic
    _listed: dict[str, ListedRun] = field(default_factory=dict)  # by directory
    _unfinished: Sequence[str] = ()
    _read: float = float("-inf")
    _active: int = -1  # when the last run began or ended
    _runs: Sequence[ListedRun] | None = None

    def forget(self) -> None:
        """Read the store again at the next call."""
        self._read = float("-inf")

    def read(self) -> Sequence[ListedRun]:
        """Return all runs: the same object until one has changed."""
        active = _modified_at(str(self.reader.store.active))
        if active != self._active or self.clock() - self._read > _EVERYTHING:
            self._scan()
            self._active = active
        else:
            for directory in self._unfinished:
                self._update(directory, self._listed[directory])
        if self._runs is None:
            self._runs = list(self._listed.values())
            self._unfinished = [path for path, each in self._listed.items() if each.finished is None]
        return self._runs

    def _scan(self) -> None:
        before, self._listed = self._listed, {}
        store, namespace = self.reader.store, self.reader.namespace
        opened = [run.directory for run in store.opened_runs(namespace)]
        # A run of this machine that was opened from its own archive is found by its uid, not by that of its copy.
        for path in (*opened, *store.directories(namespace)):
            directory = str(path)
            known = before.get(directory)
            if known is None or known.damaged:
                known = _listed(path, self.reader.store)
            self._update(directory, known)
        if self._listed.keys() != before.keys():
            self._runs = None
        self._read = self.clock()

    def _update(self, directory: str, known: ListedRun) -> None:
        """List a run, with its status as it is now."""
        try:
            found = os.stat(f"{directory}/{STATUS}")  # noqa: PTH116 - as below
            # The file is replaced when it changes, perhaps twice within a tick of its clock.
            changed = found.st_mtime_ns << 64 | found.st_ino
        except OSError:
            changed = 0
        if changed != known.version:
            status = _status(directory, None if known.damaged else self.reader.store)
            # If nothing says that it waits or runs, it does not.
            outcome = Outcome.FAILED if status is None else status.outcome
            finished = known.created if status is None else status.finished
            known = replace(known, outcome=outcome, finished=finished, version=changed)
            self._runs = None
        self._listed[directory] = known


def _status(directory: str, store: RunStore | None) -> RunStatus | None:
    """Return the status of a run; `store` has its journal, if that can be read."""
    try:
        return read_status(directory)
    except (OSError, msgspec.DecodeError, ValueError):
        run = None if store is None else store.load(Path(directory))
        return None if run is None else run.status()


def _listed(path: Path, store: RunStore) -> ListedRun:
    run = store.load(path)
    if run is not None:
        damaged = "" if run.has_our_format else f"{OTHER_FORMAT}: use that version to see it"
        return ListedRun(ref_of(run), run.record.created, _words(run), damaged=damaged, version=-1)
    why = "run.json cannot be read" if os.path.lexists(path / RECORD) else "run.json is missing"
    why += f"; its files are in {path}: remove them if you do not need them"
    ref = RunRef(path.parent.name, int(path.name), path.parent.parent.name, "")
    made = dt.datetime.fromtimestamp(_modified_at(str(path)) / 1e9, dt.UTC)
    return ListedRun(ref, made, str(ref).lower(), damaged=why, version=-1)


def _words(run: StoredRun) -> str:
    record = run.record
    spec = record.job.get("spec")
    fields: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
    tasks, plugins = fields.get("tasks") or [], fields.get("plugins") or {}
    words = [record.ref, record.namespace, record.note, record.file, str(fields.get("queue", ""))]
    words += record.args
    words += [str(task.get("name", "")) for task in tasks if isinstance(task, dict)]
    words += map(str, plugins) if isinstance(plugins, dict) else []
    return " ".join(words).lower()


def _modified_at(path: str) -> int:
    """Return when a file or a directory was modified, in nanoseconds since 1970; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a Path for each of thousands takes longer than the call
    except OSError:
        return 0
