"""The directory of a run while this process owns it: reserved, stored as soon as the run may start, closed."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.options import Locate, RunOptions, priority_of
from pumice.engines.local.preparation.new_record import bound, gang_pods, new_record
from pumice.engines.local.preparation.preflight import has_counted_processes
from pumice.engines.local.run_errors import DoesNotFit
from pumice.engines.local.runs.journal import Journal, SequenceNumbers
from pumice.engines.local.runs.lost_runs import settle_lost_runs
from pumice.engines.local.runs.recorder import Recorder
from pumice.engines.local.runs.retention import prune, removal_text
from pumice.engines.local.runs.run_record import RunStatus
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import OwnedRun, RunStore
from pumice.engines.local.scheduling.fitting import gang
from pumice.engines.local.scheduling.own_turn import OwnTurn
from pumice.engines.local.scheduling.plan import Waiting
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.scheduling.run_queue import pod_sets
from pumice.engines.local.state.settings import Settings
from pumice.engines.local.state.state_directory import make_private
from pumice.engines.local.verdict import explained
from pumice.engines.local.why import Why
from pumice.model.findings import SPEC
from pumice.model.job import Job, Manifest
from pumice.model.problem import Position
from pumice.model.vocabulary import SUSPENDED

_PLANNED = "RunPlanned"  # the entry with which a run begins


@dataclass(slots=True)
class OpenRun:
    store: RunStore
    directory: Path
    owned: OwnedRun | None
    numbers: SequenceNumbers = field(default_factory=SequenceNumbers)  # of the journal and the logs
    _journal: Journal | None = None
    _recorder: Recorder | None = None
    _turn: OwnTurn | None = None
    _continued: bool = False  # another process began it

    def begin(self, request: RunRequest, warn: Callable[[str], None]) -> Recorder:
        """Store the run, if it is new; return the listener that records it. Raises OSError."""
        if self.owned is None:
            self.owned = self.store.create(self.directory, new_record(request, self.directory, wall_clock()))

        def lost(why: str) -> None:
            warn(f"events are shown but no longer written to {self.directory}: {why}")

        self._journal = Journal(self.directory, self.numbers, wall_clock, elapsed, lost)
        entries = self._journal.open()
        self._continued = any(entry.kind == _PLANNED for entry in entries)
        source = request.source
        self._recorder = Recorder(self.directory, self._journal, lambda each: explained(each, source), elapsed)
        self._recorder.go_on(self.owned.run.status(), entries)
        if self._turn is not None and self._turn.why is not None:
            self._recorder.queue(self._turn.waiting.arrival)
        return self._recorder

    def join_queue(self, job: Job, manifests: Sequence[Manifest], options: RunOptions, scheduler: PodScheduler) -> None:
        """Get a position in the queue of this machine; a run that waited before keeps it."""
        members = gang(job, manifests)
        seconds = bound(job, options.timeout)
        status = RunStatus() if self.owned is None else self.owned.run.status()
        waiting = Waiting(
            name=f"{job.name}:{self.directory.name}",
            pods=pod_sets(gang_pods(members)),
            arrival=status.arrival,
            priority=priority_of(job, options),
            scalable=not has_counted_processes(job),
            gpus=scheduler.machine.gpus,
            bound=None if seconds is None else dt.timedelta(seconds=seconds),
            held_since=status.held,
        )
        specs = {each["metadata"]["name"]: each["spec"] for each in members}
        granted = status.gpus if status.arrival and status.started is not None else None
        self._turn = OwnTurn(self.store, job.uid, specs, waiting, scheduler, granted)
        scheduler.queued_behind = self._turn.why_pod_waits

    @property
    def turn(self) -> OwnTurn:
        """The run's position in the queue, once it has one."""
        if self._turn is None:
            raise RuntimeError("the run has not joined the queue")
        return self._turn

    def take_turn(self, options: RunOptions, locate: Locate) -> None:
        """Get the run its room if it is its turn. Raises RefusedError if it is not, and the run shall not wait."""
        why = self.turn.take()
        if why is not None and not options.wait:
            raise _no_room(why, locate)

    def check_room(self, locate: Locate) -> None:
        """Raises RefusedError if the run would have to wait now."""
        why = self.turn.look()
        if why is not None:
            raise _no_room(why, locate)

    async def wait_for_room(
        self, stopping: asyncio.Event, longest: float | None, announce: Callable[[Why], None]
    ) -> str:
        """Wait for the run's turn, or until it is stopped. Return an error if it waited longer than it may."""
        if self.turn.why is None:
            return ""
        error = await self.turn.wait(stopping, longest, announce)
        if self._recorder is not None and self.turn.has_room:
            self._recorder.start(self.turn.gpus)
        return error

    def continuation_warnings(self, job: Job) -> Iterator[str]:
        """Yield what differs from the process that submitted the run, or that began it."""
        python = "" if self.owned is None else self.owned.run.record.python
        if python and python != sys.executable and not os.access(python, os.X_OK):
            yield f"{python}, which submitted the run, is gone; {sys.executable} runs it"
        if self._continued and "ssh" in job.spec.plugins:
            yield "new ssh keys are generated, because keys are not stored"

    def detach(self) -> str:
        """Record that the run outlives its client: the service watches it from now on. Return its name.

        Raises OSError.
        """
        if self.owned is None or self._recorder is None:
            raise RuntimeError("the run has not begun")
        self.owned = OwnedRun(self.store.detach(self.owned.run), self.owned.lock)
        self._recorder.detach(self.turn.queue())
        return self.ref

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


def _no_room(why: Why, locate: Locate) -> DoesNotFit:
    hint, where = "without {} it waits for its turn", Position(locate(SPEC).file)
    python_hint = hint.format("no_wait=True")
    error = DoesNotFit(f"does not fit now: {why.text}", hint.format("--no-wait"), where, python_hint=python_hint)
    error.shortages = why.short
    return error


@contextmanager
def open_run(
    job: Job, settings: Settings, owned: OwnedRun | None, note: Callable[[str], None], *, dry: bool = False
) -> Iterator[OpenRun]:
    """Reserve the directory of a new run, unless this process owns one, and clean up after earlier runs.

    With `dry`, the run gets no directory. Raises OSError.
    """
    store = RunStore(settings.state)
    make_private(store.state)
    if dry:
        yield OpenRun(store, store.runs / job.namespace / job.name / "0", owned)
        return
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
