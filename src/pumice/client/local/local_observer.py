"""Reads the runs of this machine again and again, for the page: histories, logs and lists are kept, and continued."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.client.backend import RunRef
from pumice.client.local.capacity import CapacityReader, pod_addresses
from pumice.client.local.liveness import Liveness, liveness, lost_status
from pumice.client.local.run_logs import RunLogs
from pumice.client.local.run_reader import RunReader, beside_loop, ref_of
from pumice.client.observer import Capacity, ListedRun, Observed, PodAddress, Refusals, Scope, WaitingRun
from pumice.diagnosis.outcome import Outcome
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.vocabulary import Phase
from pumice.runtime.recently_used import RecentlyUsed
from pumice.store.files.owner_lock import read_owner
from pumice.store.files.run_store import OTHER_FORMAT, RECORD, STATUS, RunStore, StoredRun, read_status
from pumice.store.history.stored_history import StoredHistory
from pumice.store.logs.log_reader import LogSelection
from pumice.store.logs.log_source import LogBatch
from pumice.store.logs.numbered_log import LogFiles, NumberedLog
from pumice.store.run_record import RunStatus
from pumice.store.sample_file import FILE, Sample, SampleReader

T = TypeVar("T")
_MOST_HISTORIES: Final = 24
_MOST_LOGS: Final = 3
_PART: Final = 10_000  # samples
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
            try:
                status: RunStatus | None = read_status(directory)
            except (OSError, msgspec.DecodeError, ValueError):
                # Its journal says it, if that can be read.
                run = None if known.damaged else self.reader.store.load(Path(directory))
                status = None if run is None else run.status()
            # If nothing says that it waits or runs, it does not.
            outcome = Outcome.FAILED if status is None else status.outcome
            finished = known.created if status is None else status.finished
            known = replace(known, outcome=outcome, finished=finished, version=changed)
            self._runs = None
        self._listed[directory] = known


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


@dataclass(slots=True)
class LocalObserver:
    reader: RunReader
    table: RunTable = field(init=False)
    _capacity: CapacityReader = field(init=False)
    _lock: Lock = field(default_factory=Lock)
    # Both by uid.
    _histories: RecentlyUsed[str, StoredHistory] = field(default_factory=lambda: RecentlyUsed(_MOST_HISTORIES))
    _logs: RecentlyUsed[str, tuple[Path, NumberedLog]] = field(default_factory=lambda: RecentlyUsed(_MOST_LOGS))

    scope = Scope()

    def __post_init__(self) -> None:
        self.table, self._capacity = RunTable(self.reader), CapacityReader(self.reader)

    async def open(self) -> None:
        """Every call reads for itself."""

    async def close(self) -> None:
        """No file stays open."""

    def notices(self) -> Sequence[str]:
        return ()

    def forget(self) -> None:
        self.table.forget()
        self._capacity.forget()

    async def runs(self) -> Sequence[ListedRun]:
        return await beside_loop(self._alone, self.table.read)

    async def capacity(self) -> Capacity:
        return await beside_loop(self._alone, self._capacity.read)

    def _alone(self, read: Callable[[], T]) -> T:
        """Read something that several callers may ask for at once, each in a thread."""
        with self._lock:
            return read()

    async def observe(self, run: RunRef, *, whole: bool = True) -> Observed:
        return await beside_loop(self._observe, run, whole)

    def _observe(self, ref: RunRef, whole: bool) -> Observed:  # noqa: FBT001 - as `to_thread` passes it
        run = self.reader.stored(ref)
        written: RunStatus | None = None
        with suppress(OSError, msgspec.DecodeError, ValueError):
            written = read_status(run.directory)
        # Those of runs that have ended are not kept for a list, which shows hundreds of them.
        keep = whole or written is None or written.finished is None
        history = self._histories.pop(ref.uid, None)
        if history is None or history.directory != run.directory:
            history = StoredHistory(run.record, directory=run.directory)
        history.refresh()
        if keep:
            self._histories.keep(ref.uid, history)
        status = written or history.status
        state = liveness(run, status)
        lost = state is Liveness.LOST and not run.elsewhere
        return Observed(
            ref=ref,
            history=history,
            status=status,
            outcome=lost_status(run, status).outcome if lost else status.outcome,
            is_over=_is_over(status, state),
            # The process that owned it last may live on without it, as the service does.
            has_process=state is Liveness.LIVE and run.is_owned and read_owner(run.directory).is_alive,
            elsewhere=run.elsewhere,
            directory=str(run.directory),
        )

    async def log(self, run: RunRef) -> NumberedLog:
        return await beside_loop(self._log, run)

    def _log(self, ref: RunRef) -> NumberedLog:
        run = self.reader.stored(ref)
        status = run.status()
        live = not _is_over(status, liveness(run, status))
        directory, log = self._logs.pop(ref.uid, (None, None))
        if log is None or log.live != live or directory != run.directory:
            log = NumberedLog(LogFiles(run.directory), live)
        self._logs.keep(ref.uid, (run.directory, log))
        log.find()
        return log

    async def newest_line(self, run: RunRef) -> LogBatch | None:
        def read() -> LogBatch | None:
            found = [part[-1] for part in RunLogs(self.reader.stored(run), LogSelection(tail=1)).read()]
            return found[-1] if found else None

        return await beside_loop(read)

    async def waiting(self, run: Observed, *, whole: bool = True) -> WaitingRun | None:
        del whole
        return (await self.capacity()).waiting.get(run.record.uid)

    async def refusals(self, run: Observed) -> Refusals:
        del run
        return {}

    async def document(self, run: Observed) -> Manifest | None:
        del run
        return None

    def samples(self, run: RunRef) -> LocalSamples:
        return LocalSamples(SampleReader(self.reader.stored(run).directory))

    async def addresses(self, run: Observed, pods: Sequence[str]) -> Mapping[str, PodAddress]:
        return await beside_loop(pod_addresses, run.history, pods)

    async def manifest(self, run: RunRef, pod: str, attempt: int = 0) -> Manifest | None:
        directory = self.reader.stored(run).directory / "pods" / pod

        def read() -> Manifest | None:
            numbers = [int(each.name) for each in directory.glob("[0-9]*") if each.name.isdecimal()]
            for number in sorted(numbers, reverse=True):
                with suppress(OSError, msgspec.DecodeError):
                    manifest = msgspec.json.decode((directory / str(number) / "pod.json").read_bytes())
                    metadata = manifest.get("metadata", {}) if isinstance(manifest, dict) else {}
                    retries = metadata.get("annotations", {}).get(keys.JOB_RETRY_COUNT, "")
                    if attempt == 0 or str(retries) == str(attempt - 1):
                        found: Manifest = manifest
                        return found
            return None

        return await beside_loop(read)


class LocalSamples(Struct, frozen=True):
    reader: SampleReader

    async def size(self) -> int:
        try:
            return (self.reader.directory / FILE).stat().st_size
        except OSError:
            return 0

    async def new(self) -> AsyncGenerator[Sequence[Sample], None]:
        samples = self.reader.read()
        while part := await beside_loop(lambda: list(islice(samples, _PART))):
            yield part


def _is_over(status: RunStatus, state: Liveness) -> bool:
    return status.phase == Phase.ABORTED or state in (Liveness.OVER, Liveness.LOST)
