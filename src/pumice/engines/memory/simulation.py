"""Plays a scenario on the memory engine, in virtual time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pumice.admission.admit import Admitted
from pumice.admission.context import Context
from pumice.engines.memory.cluster_state import World
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.event_log import EventLog
from pumice.engines.memory.expectations import Expectations, Outcome
from pumice.engines.memory.kubelet import Behaviours, Kubelet
from pumice.engines.memory.scenario import HORIZON, SETTINGS, Scenario, Step
from pumice.engines.memory.scenario_steps import Director
from pumice.engines.memory.timeline import EPOCH, Timeline, VirtualClock
from pumice.model.job import Job
from pumice.model.snapshot import JobKey, Snapshot
from pumice.model.vocabulary import Phase
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.ledger import read_ledger
from pumice.reconcile.phases import AT_REST
from pumice.reconcile.state import State
from pumice.runtime.loop import Loop

# The budget of a simulation, about ten seconds: each pass, each pod in it and each call of the engine has a price.
WORK: Final = 2_500_000
_WORK_OF_A_PASS: Final = 150
_WORK_OF_A_CALL: Final = 10
# So many pods that keep a job from its end are named.
_NAMED: Final = 3
_NEVER: Final = EPOCH + 2 * HORIZON


@dataclass(slots=True)
class Simulation:
    admitted: Admitted
    scenario: Scenario
    context: Context
    work: int = WORK
    world: World = field(init=False)
    story: EventLog = field(init=False)
    key: JobKey = field(init=False)
    passes: int = 0
    _engine: MemoryEngine = field(init=False)
    _kubelet: Kubelet = field(init=False)
    _director: Director = field(init=False)
    _expectations: Expectations = field(init=False)
    _loop: Loop | None = field(init=False, default=None)  # None while the controller is down
    _back_at: dt.datetime = EPOCH
    _timeline: Timeline = field(default_factory=Timeline)

    def __post_init__(self) -> None:
        self.world = World(VirtualClock())
        self.key = self.world.put_job(self.admitted.job)
        # Claims that the job only names exist.
        self.world.claims.update(volume.volume_claim_name for volume in self.admitted.job.spec.volumes)
        engine = self._engine = MemoryEngine(self.world)
        self.story = EventLog(self.world, engine, self.key)
        behaviours = Behaviours(self.scenario.seed)
        kubelet = Kubelet(self.world, self.key, self._timeline, self.story, behaviours, self.scenario.capacity)
        self._kubelet = kubelet
        engine.on_created, engine.on_deleting = kubelet.created, kubelet.deleting
        self._director = Director(self.world, self.key, engine, kubelet, self.story, self._change_controller)
        self._expectations = Expectations(self.world, self.key, self.scenario.expectations)

    async def run(self) -> list[Outcome]:
        self._loop = self._new_loop()
        self._begin()
        while True:
            await self._settle()
            moment = self._next_moment()
            if self.work <= 0:
                self._cut_off("it does not end")
                break
            if self._is_over():
                break
            if moment is None:
                self.story.record("Stuck", f"stuck: {self._stuck_reason()}")
                break
            if moment > EPOCH + HORIZON:
                self._cut_off("the next event is more than a year away")
                break
            self.world.clock.move_to(moment)
            self._timeline.play_until(self.world.clock.now)
        return self._expectations.outcomes()

    def _begin(self) -> None:
        """Settings at 0s apply before everything else."""
        for step in self.scenario.steps:
            if not step.at and step.kind in SETTINGS:
                self._director.play(step)
            else:
                self._timeline.plan(EPOCH + step.at, partial(self._director.play, step))
        for expectation in self.scenario.expectations:
            if expectation.at is not None:
                # Time must not skip this moment.
                self._timeline.plan(EPOCH + expectation.at, lambda: None)

    async def _settle(self) -> None:
        """Run the controller until nothing is left to do at this moment."""
        loop = self._loop
        while loop is not None and self.work > 0:
            for key in dict.fromkeys(self.world.changed):
                loop.queue.add(key)
            self.world.changed.clear()
            if not await loop.serve_next():
                break
            self.passes += 1
            # Charge the pass to the budget.
            looked_at = len(self.world.pods) + self._expectations.open
            self.work -= _WORK_OF_A_PASS + looked_at + _WORK_OF_A_CALL * self._engine.calls
            self._engine.calls = 0
            self.story.record_pass()
            self._expectations.check()
        self.story.close_moment()
        self._expectations.check()
        self._kubelet.give_room()

    def _next_moment(self) -> dt.datetime | None:
        due = self._loop.queue.next_due() if self._loop is not None else None
        return min((moment for moment in (due, self._timeline.next_moment()) if moment is not None), default=None)

    def _is_over(self) -> bool:
        """Nothing more happens: the job is at rest, no step is left, no pod terminates, and no TTL runs."""
        job, now = self.world.jobs.get(self.key), self.world.clock.now - EPOCH
        moments = [step.at for step in self.scenario.steps]
        moments += [expectation.first for expectation in self.scenario.expectations]
        if max(moments, default=now) > now:
            return False
        if job is None:
            return True
        if self._loop is None and self.world.changed:
            # A new controller would act on it.
            return False
        alive = any(not stored.seen.is_finished for stored in self.world.pods_of(self.key))
        if alive or job.status.state.phase not in AT_REST:
            return False
        self._expectations.rest()
        # An aborted job may be resumed, so it is never removed.
        return job.spec.ttl_seconds_after_finished is None or job.status.state.phase == Phase.ABORTED

    def _cut_off(self, why: str) -> None:
        job = self.world.jobs.get(self.key)
        retries = f" after {job.status.retry_count} retries" if job is not None and job.status.retry_count else ""
        self.story.record("CutOff", f"cut off{retries}: {why}")

    def _new_loop(self) -> Loop:
        loop = Loop(self._engine, self.context, self.world.clock, admitted={self.key: self.admitted})
        loop.queue.add(self.key)
        return loop

    def _change_controller(self, step: Step) -> None:
        now, away = self.world.clock.now, step.duration
        if step.controller == "up":
            self._back_at = now
            self._controller_returns()
            return
        self._loop = None
        if away is None:
            self._back_at = _NEVER
            self.story.record("ControllerDown", "controller down")
            return
        # If it goes down a second time meanwhile, it returns when both times are over.
        self._back_at = max(self._back_at if self._back_at != _NEVER else now, now + away)
        self.story.record("ControllerDown", f"controller down for {away.total_seconds():g}s")
        self._timeline.plan(self._back_at, self._controller_returns)

    def _controller_returns(self) -> None:
        if self._loop is None and self.world.clock.now >= self._back_at:
            self._loop = self._new_loop()
            self.story.record("ControllerUp", "controller is back")

    def _stuck_reason(self) -> str:
        """Why the job does not end: the last line of a log that stops in the middle."""
        if self._loop is None:
            return "the controller is down, and no step starts it again"
        job = self.world.jobs[self.key]
        nothing = "nothing more happens" if job.total_replicas else "the job has no pods"
        return "; ".join(self._missing(job)) or job.status.state.message or nothing

    def _missing(self, job: Job) -> Iterator[str]:
        group, kubelet = self.world.groups.get(self.key), self._kubelet
        if group is not None and group.phase == "Pending":
            yield "the PodGroup is Pending, so no pods are created"
        waiting, gang = kubelet.waiting(), kubelet.gang
        if waiting:
            together = f", and {gang} must start together (minAvailable)" if gang > (kubelet.capacity or 0) else ""
            verb = "finds" if len(waiting) == 1 else "find"
            pods = "1 pod" if kubelet.capacity == 1 else f"{kubelet.capacity} pods"
            yield f"{_listed(waiting)} {verb} no room: there is room for {pods}{together}"
        hanging = kubelet.hanging()
        if hanging:
            yield f"{_listed(hanging)} hang{'s' if len(hanging) == 1 else ''} pending, as the scenario says"
        there = tuple(stored.seen for stored in self.world.pods_of(self.key))
        free = may_start(State.of(Snapshot(job, there), read_ledger(job.status)))
        for task in job.spec.tasks:
            if task.depends_on is not None and task.name not in free and task.replicas:
                condition = "to complete" if task.depends_on.condition == "Completed" else "to run"
                yield f"{task.name} waits for {', '.join(task.depends_on.name)} {condition} (dependsOn)"


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
