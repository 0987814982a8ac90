"""Reads the runs of this machine again and again, for the page: histories, logs and lists are kept, and continued."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from pumice.client.backend import RunRef
from pumice.client.local.capacity import CapacityReader, pod_addresses
from pumice.client.local.liveness import Liveness, liveness, lost_status
from pumice.client.local.run_logs import RunLogs
from pumice.client.local.run_reader import RunReader, beside_loop
from pumice.client.local.run_table import RunTable
from pumice.client.observer import Capacity, ListedRun, Observed, PodAddress, Refusals, Scope, WaitingRun
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.vocabulary import Phase
from pumice.runtime.recently_used import RecentlyUsed
from pumice.store.files.owner_lock import read_owner
from pumice.store.files.run_store import StoredRun, read_status
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
        history = self._history(run, keep=whole or written is None or written.finished is None)
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

    def _history(self, run: StoredRun, *, keep: bool) -> StoredHistory:
        uid = run.record.uid
        history = self._histories.pop(uid, None)
        if history is None or history.directory != run.directory:
            history = StoredHistory(run.record, directory=run.directory)
        history.refresh()
        if keep:
            self._histories.keep(uid, history)
        return history

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
        return await beside_loop(_manifest, self.reader.stored(run).directory, pod, attempt)


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


def _manifest(directory: Path, pod: str, attempt: int) -> Manifest | None:
    numbers = [int(each.name) for each in (directory / "pods" / pod).glob("[0-9]*") if each.name.isdecimal()]
    for number in sorted(numbers, reverse=True):
        with suppress(OSError, msgspec.DecodeError):
            manifest = msgspec.json.decode((directory / "pods" / pod / str(number) / "pod.json").read_bytes())
            metadata = manifest.get("metadata", {}) if isinstance(manifest, dict) else {}
            if attempt == 0 or str(metadata.get("annotations", {}).get(keys.JOB_RETRY_COUNT, "")) == str(attempt - 1):
                found: Manifest = manifest
                return found
    return None
