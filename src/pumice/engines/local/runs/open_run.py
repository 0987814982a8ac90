"""The directory of a run while this process owns it: reserved, stored as soon as the run may start, closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.outcome import SUSPENDED
from pumice.engines.local.runs.journal import Journal, SequenceNumbers
from pumice.engines.local.runs.lost_runs import settle_lost_runs
from pumice.engines.local.runs.new_record import new_record
from pumice.engines.local.runs.recorder import Recorder
from pumice.engines.local.runs.retention import prune, removal_text
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import OwnedRun, RunStore
from pumice.engines.local.state.settings import Settings
from pumice.engines.local.verdict import verdict_lines
from pumice.model.job import Job


@dataclass(slots=True)
class OpenRun:
    store: RunStore
    directory: Path
    owned: OwnedRun | None
    numbers: SequenceNumbers = field(default_factory=SequenceNumbers)  # of the journal and the logs
    _journal: Journal | None = None
    _recorder: Recorder | None = None

    def begin(self, request: RunRequest, warn: Callable[[str], None]) -> Recorder:
        """Store the run, if it is new; return the listener that records it. Raises OSError."""
        if self.owned is None:
            self.owned = self.store.create(self.directory, new_record(request, self.directory, wall_clock()))

        def lost(why: str) -> None:
            warn(f"events are shown but no longer written to {self.directory}: {why}")

        self._journal = Journal(self.directory, self.numbers, wall_clock, elapsed, lost)
        self._journal.open()
        source = request.source
        self._recorder = Recorder(self.directory, self._journal, lambda each: verdict_lines(each, source), elapsed)
        self._recorder.status = self.owned.run.status()
        return self._recorder

    @property
    def ref(self) -> str:
        return "" if self.owned is None else self.owned.run.ref

    def close(self) -> None:
        if self.owned is None:
            self.store.give_up(self.directory)
            return
        if self._journal is not None and self._recorder is not None:
            self._journal.close()
            if self._recorder.status.reason != SUSPENDED:
                self.store.finish(self.owned.run)
            self.owned.lock.release()


@contextmanager
def open_run(job: Job, settings: Settings, owned: OwnedRun | None, note: Callable[[str], None]) -> Iterator[OpenRun]:
    """Reserve the directory of a new run, unless this process owns one, and clean up after earlier runs.

    Raises OSError.
    """
    store = RunStore(settings.state)
    if owned is None:
        settle_lost_runs(store, wall_clock())
        if removed := prune(store, settings.retention, wall_clock()):
            note(removal_text(removed))
    directory = store.reserve(job.namespace, job.name) if owned is None else owned.run.directory
    run = OpenRun(store, directory, owned)
    try:
        yield run
    finally:
        run.close()
