"""The writer of a run: appends to its journal, and writes the status that follows for readers.

Also closes runs whose process was killed: foreground runs end with their client, so the next run that starts does it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from pumice.diagnosis.outcome import StopReason
from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.daemon.runtime_files import remove_runtime_files
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.store.events import (
    HangEnded,
    PortPublished,
    PortTaken,
    RequestAccepted,
    RunEvent,
    RunHangs,
    RunPlanned,
    RunWaits,
    StatusWritten,
)
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.file_lock import wait_until_free
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.retention import size_of
from pumice.store.files.run_directory import SCRATCH
from pumice.store.files.run_store import STATUS, OwnedRun, RunStore, StoredRun
from pumice.store.history.entries import Detached, EventEncoder, JournalEntry, Lost, Queued, Started, encode
from pumice.store.history.stored_history import StoredHistory, read_history
from pumice.store.journal import Journal, SequenceNumbers
from pumice.store.run_end import CLIENT_LOST, TERMINATED, RunEnded, Stop
from pumice.store.run_errors import StoreError
from pumice.store.run_record import FOREGROUND, RunStatus

# Seconds between two writes of the status, unless the run has ended.
_PAUSE: Final = 0.5
# Entries after which the status is written at once: what `ps` says changes, or another process continues the run.
_WRITTEN: Final = (
    Queued,
    Started,
    Detached,
    RunPlanned,
    RunWaits,
    PortPublished,
    PortTaken,
    RunHangs,
    HangEnded,
    RequestAccepted,
    RunEnded,
)
STOPPED: Final = Stop(TERMINATED, StopReason.STOPPED, "it was stopped")


class Recorder(Struct):
    """Appends the entries of one run, of which this process holds the owner lock. It listens to the run's events."""

    journal: Journal
    history: StoredHistory
    elapsed: Callable[[], float] = elapsed
    _encoder: EventEncoder = field(default_factory=EventEncoder)
    _written: float = float("-inf")
    _stored: int = 0  # the sequence number of the status that was written last
    _retries: int = 0  # spent, as far as the journal says

    @property
    def status(self) -> RunStatus:
        return self.history.status

    def __call__(self, event: RunEvent) -> None:
        """Record what happens in the run, and write the status now and then."""
        for kind, data in self._encoder.encode(event):
            self.history.add(self.journal.append(kind, data, sync=self._must_last(event)))
        if isinstance(event, RunEnded):
            self.history.status = msgspec.structs.replace(self.status, size=size_of(self.history.directory))
        if isinstance(event, _WRITTEN):
            self.write(sync=isinstance(event, RunEnded))
        elif self.history.seq > self._stored and self.elapsed() - self._written >= _PAUSE:
            # Also if only time passes: the status may be older than the journal.
            self.write()

    def record(self, entry: JournalEntry) -> None:
        """Record what happens to the run. It survives a power failure, and the status follows, if the disk has room."""
        self.history.add(self.journal.append(type(entry).__name__, encode(entry), sync=True))
        self.write(sync=True)

    def _must_last(self, event: RunEvent) -> bool:
        """Whether the event must survive a power failure: how the run ended, accepted requests, spent retries."""
        if isinstance(event, StatusWritten):
            before, self._retries = self._retries, event.status.retry_count
            return self._retries > before
        return isinstance(event, RunEnded | RequestAccepted)

    def write(self, *, sync: bool = False) -> None:
        """Write the status. On a full disk the old one stays, and readers find what is newer in the journal."""
        self._written, self._stored = self.elapsed(), self.history.seq
        content = msgspec.json.encode(self.status) + b"\n"
        while True:
            try:
                replace_file(self.history.directory / STATUS, content, sync=sync)
            except OSError as error:
                # The end of a run may use the rest of the reserve.
                if sync and self.journal.make_room(len(content)):
                    continue
                self.journal.lost((error.strerror or str(error)).lower())
            return


def open_recorder(run: StoredRun, numbers: SequenceNumbers, lost: Callable[[str], None]) -> Recorder:
    """Open the journal of a run whose owner lock this process holds. `lost` is called if entries cannot be written."""
    journal = Journal(run.directory, numbers, wall_clock, elapsed, lost)
    journal.open()
    history = read_history(run.record, run.directory)
    status = run.status()
    # On a full disk, entries may have been lost of which the status knows.
    numbers.last = max(numbers.last, status.seq)
    if status.seq >= history.seq:
        # It has what is not in the journal, too: why the run waits.
        history.status = status
    return Recorder(journal, history)


def append(run: StoredRun, entry: JournalEntry) -> RunStatus:
    """Append to the journal of a run that has no process, and write its status. Its owner lock is held.

    Raises OSError if the status cannot be written.
    """
    recorder = open_recorder(run, SequenceNumbers(), lambda _reason: None)
    try:
        recorder.history.add(recorder.journal.append(type(entry).__name__, encode(entry), sync=True))
    finally:
        recorder.journal.close()
    run.write_status(recorder.status)
    return recorder.status


def catch_up(run: StoredRun) -> RunStatus:
    """Write the status of a run whose process was killed before it could; return it. Its owner lock is held."""
    status, history = run.status(), read_history(run.record, run.directory)
    if history.seq <= status.seq:
        return status
    run.write_status(history.status)
    return history.status


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
