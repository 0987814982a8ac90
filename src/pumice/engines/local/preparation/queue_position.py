"""Where a run stands in the queue of this machine, and the refusal of one that must not wait."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from pumice.diagnosis.why import Why, WhyCode, sentence
from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.preparation.new_record import bound, gang_pods
from pumice.engines.local.preparation.preflight import has_counted_processes
from pumice.engines.local.preparation.run_plan import Plan
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.plan import Decision, Hold, PodSet, Refuse, Start, Waiting, plan
from pumice.engines.local.scheduling.pod_scheduler import RETRY_INTERVAL, PodScheduler
from pumice.engines.local.scheduling.reservations import Reservations, reservations_directory
from pumice.engines.local.scheduling.run_queue import active_runs, machine_for, next_arrival, pod_sets, read_queue
from pumice.model.findings import SPEC
from pumice.model.job import Manifest
from pumice.model.problem import Option, Position
from pumice.model.resources import Usage
from pumice.store.files.run_store import RunStore
from pumice.store.options import Locate, priority_of
from pumice.store.run_errors import DoesNotFit
from pumice.store.run_record import RunStatus


@dataclass(slots=True)
class OwnTurn:
    """`gang` are the specs of the pods that start at once, by name; `waiting` is what the queue knows of the run."""

    store: RunStore
    uid: str
    gang: Mapping[str, Manifest]
    waiting: Waiting
    scheduler: PodScheduler
    granted: tuple[str, ...] | None = None  # the service gave the run its room, with these GPUs
    gpus: tuple[str, ...] = field(default=(), init=False)  # that the run got
    why: Why | None = field(default=None, init=False)  # it waited at the last look

    def take(self) -> Why | None:
        """Reserve the room of the gang if it is its turn. Return None, or why it has to wait. Raises OSError."""
        scheduler = self.scheduler
        with scheduler.reservations.locked():
            if self.granted is not None and scheduler.reserve(self.gang, self.granted).fits:
                self.gpus, self.why = self.granted, None
                return None
            decision, machine = self._decide(self.waiting)
            if isinstance(decision, Start):
                # Since the last look, other programs may have taken or released memory.
                scheduler.machine = replace(machine, gpus=scheduler.machine.gpus, gpu_programs={})
                if scheduler.reserve(self.gang, decision.gpus).fits:
                    self.gpus, self.why = decision.gpus, None
                    return None
            if not self.waiting.arrival:
                arrival = next_arrival(self.store.state)
                self.waiting = replace(self.waiting, arrival=arrival, held_since=wall_clock())
        self.why = self._why(decision)
        return self.why

    def look(self) -> Why | None:
        """Return why the run would have to wait now; None if it would start. Nothing is reserved."""
        with self.scheduler.reservations.locked():
            decision, _ = self._decide(self.waiting)
        return None if isinstance(decision, Start) else self._why(decision)

    def queue(self) -> int:
        """Return the number of the run in the queue; a run that never waited gets one. Raises OSError."""
        if not self.waiting.arrival:
            with self.scheduler.reservations.locked():
                self.waiting = replace(self.waiting, arrival=next_arrival(self.store.state))
        return self.waiting.arrival

    @property
    def has_room(self) -> bool:
        return self.why is None

    async def wait(self, stopping: asyncio.Event, longest: float | None, announce: Callable[[Why], None]) -> str:
        """Wait for the turn, or until `stopping`; announce the reason each time that it changes.

        Return an error if it took longer than it may; empty otherwise.
        """
        shown, begin, why = None, elapsed(), self.why
        while why is not None and not stopping.is_set():
            if why.topic != shown:
                shown = why.topic
                announce(why)
            waited = elapsed() - begin
            if longest is not None and waited >= longest:
                return f"no room within {longest:g}s: {why.text}"
            pause = RETRY_INTERVAL if longest is None else min(RETRY_INTERVAL, longest - waited)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stopping.wait()
            if not stopping.is_set():
                why = self.take()
        return ""

    def why_pod_waits(self, pod: str, usage: Usage) -> str:
        """Return why a further pod has to wait though it fits; empty if it need not. Call it while locked."""
        own = Waiting(
            name=f"{self.waiting.name}/{pod}",
            pods=(PodSet(pod, 1, usage),),
            arrival=self.waiting.arrival,
            priority=self.waiting.priority,
            extra=True,
            gpus=self.waiting.gpus,
        )
        decision, _ = self._decide(own)
        return sentence(decision.why) if isinstance(decision, Hold) else ""

    def _decide(self, own: Waiting) -> tuple[Decision, Machine]:
        """Decide about this run, or a pod of it, with the machine as it is now."""
        queue = read_queue(self.store, active_runs(self.store))
        # A run of another namespace may have the same name.
        others = [
            replace(waiting, name=f"{run.record.namespace}/{run.ref}") if waiting.name == own.name else waiting
            for uid, (run, waiting) in queue.waiting.items()
            if uid != self.uid
        ]
        if not own.arrival:
            # The last one; it gets a number when it has to wait.
            own = replace(own, arrival=1 + max((each.arrival for each in others), default=0))
        machine = machine_for([*others, own])
        return plan([*others, own], queue.running, machine, wall_clock())[own.name], machine

    def _why(self, decision: Decision) -> Why:
        match decision:
            case Hold(why):
                return why
            case Refuse(short):
                return Why(run=self.waiting.name, code=WhyCode.RESOURCES, since=self.waiting.held_since, short=short)
            case Start():
                return Why(run=self.waiting.name, code=WhyCode.STARTING, since=self.waiting.held_since)


def check_room(plan: Plan) -> None:
    """Raises DoesNotFit if the run would have to wait now."""
    state = plan.settings.state
    with Reservations(reservations_directory(state), plan.job.uid) as reservations:
        scheduler = PodScheduler(plan.machine, reservations)
        why = own_turn(plan, RunStore(state), "0", scheduler, RunStatus()).look()
    if why is not None:
        raise no_room(why, plan.request.source)


def own_turn(plan: Plan, store: RunStore, number: str, scheduler: PodScheduler, status: RunStatus) -> OwnTurn:
    """Return the position of a run in the queue of this machine; a run that waited before, by its status, keeps it."""
    request, job = plan.request, plan.job
    seconds = bound(job, request.options.timeout)
    waiting = Waiting(
        name=f"{job.name}:{number}",
        pods=pod_sets(gang_pods(plan.gang)),
        arrival=status.arrival,
        priority=priority_of(job, request.options),
        scalable=not has_counted_processes(job),
        gpus=plan.machine.gpus,
        bound=None if seconds is None else dt.timedelta(seconds=seconds),
        held_since=status.held,
    )
    specs = {each["metadata"]["name"]: each["spec"] for each in plan.gang}
    granted = status.gpus if status.arrival and status.started is not None else None
    return OwnTurn(store, job.uid, specs, waiting, scheduler, granted)


def no_room(why: Why, locate: Locate) -> DoesNotFit:
    hint = "without ", Option("no-wait", True), " it waits for its turn"
    error = DoesNotFit(f"does not fit now: {why.text}", hint, Position(locate(SPEC).file))
    error.shortages = why.short
    return error
