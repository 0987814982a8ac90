"""What a run holds from its start to its end: its directory, its record, its resources and its place in the queue."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from pumice.diagnosis.why import Why
from pumice.engines.local.clock import wall_clock
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.images.lookup import RunImages
from pumice.engines.local.preparation.new_record import new_record
from pumice.engines.local.preparation.queue_position import OwnTurn, no_room, own_turn
from pumice.engines.local.preparation.run_plan import Plan
from pumice.engines.local.runs import Recorder, open_recorder, settle_lost_runs
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.scheduling.reservations import Reservations, reservations_directory
from pumice.engines.local.stored_data import make_claim_directories, note_use
from pumice.model.job import Manifest
from pumice.model.vocabulary import SUSPENDED
from pumice.store.code.snapshots import adopt_snapshot, created_files, drop_snapshot, take_snapshot
from pumice.store.events import Emitter
from pumice.store.files.retention import prune, removal_text
from pumice.store.files.run_directory import KEPT, SCRATCH, RunDirectory
from pumice.store.files.run_store import OwnedRun, RunStore
from pumice.store.files.state_directory import state_error
from pumice.store.history.entries import Detached, Queued, Started
from pumice.store.journal import SequenceNumbers
from pumice.store.run_record import RunStatus


class Reservation(Struct, kw_only=True):
    store: RunStore
    owned: OwnedRun
    recorder: Recorder
    turn: OwnTurn
    scheduler: PodScheduler
    files: RunDirectory
    images: RunImages
    inputs: JobInputs
    objects: dict[tuple[str, str], Manifest]  # of the plugins; the engine fills it, `inputs` reads it
    continued: bool  # another process began the run

    @property
    def ref(self) -> str:
        return self.owned.run.ref

    async def wait_for_room(
        self, stopping: asyncio.Event, longest: float | None, announce: Callable[[Why], None]
    ) -> str:
        """Wait for the run's turn, or until it is stopped. Return an error if it waited longer than it may."""
        if self.turn.why is None:
            return ""
        error = await self.turn.wait(stopping, longest, announce)
        if self.turn.has_room:
            self.recorder.record(Started(self.turn.gpus))
        return error

    def continuation_warnings(self, plugins: list[str]) -> Iterator[str]:
        """Yield what differs from the process that submitted the run, or that began it."""
        python = self.owned.run.record.python
        if python and python != sys.executable and not os.access(python, os.X_OK):
            yield f"{python}, which submitted the run, is gone; {sys.executable} runs it"
        if self.continued and "ssh" in plugins:
            yield "new ssh keys are generated, because keys are not stored"

    def detach(self) -> str:
        """Record that the run outlives its client: the service watches it from now on. Return its name.

        Raises OSError.
        """
        self.owned = OwnedRun(self.store.detach(self.owned.run), self.owned.lock)
        self.recorder.record(Detached(self.turn.queue()))
        return self.ref

    def kept(self) -> list[str]:
        """Return the directories with what the pods wrote, if it is kept."""
        created = [] if self.inputs.snapshot is None else created_files(self.files.directory, self.inputs.snapshot)
        directory = self.files.directory / KEPT
        if not self.inputs.settings.keep or not directory.is_dir():
            return created
        layers = sorted(str(path) for path in directory.iterdir() if path.name != "volumes")
        return [*created, *(layers or [str(directory)])]

    def close(self) -> None:
        self.recorder.journal.close()
        if self.recorder.status.reason != SUSPENDED:
            self.store.finish(self.owned.run)
        self.owned.lock.release()


@contextmanager
def reserve(plan: Plan, images: RunImages, emit: Emitter, owned: OwnedRun | None = None) -> Iterator[Reservation]:
    """Hold what the run needs, and record what is emitted. Unless it is stored, it is, after old ones are cleaned up.

    Raises DoesNotFit if the run would have to wait and must not, and RunError.
    """
    # The resources are released before the record is closed.
    with ExitStack() as record, ExitStack() as resources:
        try:
            reservation = _reserve(plan, images, emit, owned, (record, resources))
        except OSError as error:
            raise state_error(plan.settings.state, error) from error
        yield reservation


def _reserve(
    plan: Plan, images: RunImages, emit: Emitter, owned: OwnedRun | None, held: tuple[ExitStack, ExitStack]
) -> Reservation:
    request, settings, job = plan.request, plan.settings, plan.job
    store, status, (record, resources) = RunStore(settings.state), RunStatus(), held
    if owned is None:
        settle_lost_runs(store)
        if removed := prune(store, settings.retention, wall_clock()):
            emit.note(removal_text(removed))
        directory = store.reserve(job.namespace, job.name)
        record.callback(store.give_up, directory)
    else:
        directory, status = owned.run.directory, owned.run.status()
    reservations = resources.enter_context(Reservations(reservations_directory(settings.state), job.uid))
    scheduler = PodScheduler(plan.machine, reservations, emit.warn)
    turn = own_turn(plan, store, directory.name, scheduler, status)
    scheduler.queued_behind = turn.why_pod_waits
    if (why := turn.take()) is not None and not request.options.wait:
        raise no_room(why, request.source)
    make_claim_directories(plan.claims.values())
    for name, claim in plan.claims.items():
        if other := note_use(claim, settings.project or settings.workdir):
            hint = "claims are found by name: give one of them another name to keep their files apart"
            emit.warn(f"claim {name} was last used from {other}\n  hint: {hint}")
    if owned is None:
        owned = _store_new(plan, store, directory, emit)
        record.pop_all()
    numbers = SequenceNumbers()  # of the journal and the logs

    def lost(why: str) -> None:
        emit.warn(f"events are shown but no longer written to {directory}: {why}")

    recorder = open_recorder(owned.run, numbers, lost)
    objects: dict[tuple[str, str], Manifest] = {}
    scratch = directory / (KEPT if settings.keep else SCRATCH) / "volumes"
    reservation = Reservation(
        store=store,
        owned=owned,
        recorder=recorder,
        turn=turn,
        scheduler=scheduler,
        files=RunDirectory(directory, emit.warn, numbers, settings.log_size),
        images=images,
        inputs=plan.inputs(images.of, scratch, lambda: list(objects.values())),
        objects=objects,
        continued=recorder.history.plan is not None,
    )
    record.callback(reservation.close)
    if settings.snapshot:
        reservation.inputs.snapshot = adopt_snapshot(settings, directory, owned.run.record.uid)
    if why is not None:
        recorder.record(Queued(turn.waiting.arrival))
    emit.listeners.append(recorder)
    return reservation


def _store_new(plan: Plan, store: RunStore, directory: Path, emit: Emitter) -> OwnedRun:
    """Store a new run. Its snapshot is taken before: without one, there is no run. Raises RunError and OSError."""
    settings, uid = plan.settings, plan.job.uid
    if settings.snapshot:
        take_snapshot(settings, uid, emit.note)
    try:
        return store.create(directory, new_record(plan, int(directory.name), wall_clock()))
    except OSError:
        drop_snapshot(settings.state, uid)
        raise
