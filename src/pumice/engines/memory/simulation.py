"""Plays a scenario on the memory engine: virtual time, pods that behave as told, a controller that may be away."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from pumice.admission.context import Context
from pumice.engines.memory.agenda import Agenda
from pumice.engines.memory.clock import EPOCH, VirtualClock
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.expectations import Expectations, Outcome
from pumice.engines.memory.kubelet import Kubelet
from pumice.engines.memory.scenario import Scenario, Step
from pumice.engines.memory.story import Story
from pumice.engines.memory.world import StoredPod, World
from pumice.model.command import Command
from pumice.model.job import Job, JobSpec
from pumice.model.snapshot import ContainerEnd, JobKey
from pumice.model.vocabulary import Phase
from pumice.runtime.loop import Loop

# Longer than anybody waits for a job; a story that goes on is cut off here.
HORIZON = dt.timedelta(days=7)
MOST_PASSES = 200_000
_AT_REST = frozenset((Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED, Phase.ABORTED))


@dataclass(slots=True)
class Simulation:
    job: Job
    scenario: Scenario
    context: Context
    world: World = field(init=False)
    story: Story = field(init=False)
    key: JobKey = field(init=False)
    passes: int = 0
    _engine: MemoryEngine = field(init=False)
    _kubelet: Kubelet = field(init=False)
    _expectations: Expectations = field(init=False)
    _loop: Loop | None = field(init=False, default=None)  # None while the controller is away
    _agenda: Agenda = field(default_factory=Agenda)

    def __post_init__(self) -> None:
        self.world = World(VirtualClock())
        self.key = self.world.put_job(self.job)
        # Claims that the job only names are somebody else's; they are taken to exist.
        self.world.claims.update(volume.volume_claim_name for volume in self.job.spec.volumes)
        self._engine = MemoryEngine(self.world)
        self.story = Story(self.world, self._engine, self.key)
        self._kubelet = Kubelet(self.world, self._agenda, self.story, self.scenario.capacity)
        self._engine.on_created, self._engine.on_deleting = self._kubelet.created, self._kubelet.deleting
        self._expectations = Expectations(self.world, self.key, self.scenario.expectations)

    async def run(self) -> list[Outcome]:
        for step in self.scenario.steps:
            self._agenda.plan(EPOCH + step.at, self._player(step))
        self._start_controller()
        while self.passes < MOST_PASSES:
            await self._settle()
            moment = self._next_moment()
            if moment is None or moment > EPOCH + HORIZON or self._is_over():
                break
            self.world.clock.move_to(moment)
            self._agenda.play_until(self.world.clock.now)
        return self._expectations.outcomes()

    async def _settle(self) -> None:
        """Let the controller come to rest at this moment."""
        loop = self._loop
        while loop is not None and self.passes < MOST_PASSES:
            for key in dict.fromkeys(self.world.changed):
                loop.queue.add(key)
            self.world.changed.clear()
            if not await loop.serve_next():
                break
            self.passes += 1
            self.story.listen()
            self._expectations.look()
        self.story.close_moment()
        self._expectations.look()

    def _next_moment(self) -> dt.datetime | None:
        due = self._loop.queue.next_due() if self._loop is not None else None
        return min((moment for moment in (due, self._agenda.next_moment()) if moment is not None), default=None)

    def _is_over(self) -> bool:
        """Nothing more to come: the job rests, no step is left, nobody is on the way out, nothing is to be removed."""
        job = self.world.jobs.get(self.key)
        if self._loop is None or any(EPOCH + step.at > self.world.clock.now for step in self.scenario.steps):
            return False
        if job is None:
            return True
        alive = any(not stored.seen.is_finished for stored in self.world.pods_of(self.key))
        rests = Phase(job.status.state.phase) in _AT_REST
        return rests and not alive and job.spec.ttl_seconds_after_finished is None

    def _start_controller(self) -> None:
        self._loop = Loop(self._engine, self.context, self.world.clock)
        self._loop.queue.add(self.key)

    def _player(self, step: Step) -> Callable[[], None]:
        plays: dict[str, Callable[[Mapping[str, object]], None]] = {
            "pods": self._behave,
            "exit": self._end,
            "evict": lambda fields: self._for_pod(fields, self._kubelet.evict),
            "pending": lambda fields: self._kubelet.hanging.add(str(fields["pod"])),
            "controller": self._stop_controller,
            "command": self._send,
            "scale": self._scale,
            "suspend": self._suspend,
            "group": self._change_group,
        }
        return lambda: plays[step.kind](step.fields)

    def _behave(self, fields: Mapping[str, object]) -> None:
        rest = {name: value for name, value in fields.items() if name != "pods"}
        self._kubelet.behave(self.key, str(fields["pods"]), rest)

    def _end(self, fields: Mapping[str, object]) -> None:
        def end(key: JobKey, stored: StoredPod) -> None:
            code, signal = int(str(fields["exit"])), int(str(fields["signal"]))
            self._kubelet.end(key, stored, ContainerEnd(stored.seen.task, code, str(fields["reason"]), signal))

        self._for_pod(fields, end)

    def _for_pod(self, fields: Mapping[str, object], act: Callable[[JobKey, StoredPod], None]) -> None:
        for stored in self.world.pods_of(self.key):
            if stored.seen.short_name == fields["pod"]:
                act(self.key, stored)

    def _stop_controller(self, fields: Mapping[str, object]) -> None:
        away = fields["for"]
        assert isinstance(away, dt.timedelta)  # noqa: S101 - read by ScenarioReader
        self._loop = None
        self.story.tell("ControllerDown", f"controller down for {away.total_seconds():g}s")
        self._agenda.plan(self.world.clock.now + away, self._start_controller)

    def _send(self, fields: Mapping[str, object]) -> None:
        action = str(fields["command"])
        self.world.send(self.key, Command(action=action))
        self.story.tell("CommandSent", f"Command {action}", action=action)

    def _scale(self, fields: Mapping[str, object]) -> None:
        wanted = fields["scale"]
        assert isinstance(wanted, dict)  # noqa: S101 - read by ScenarioReader

        def scaled(spec: JobSpec) -> JobSpec:
            tasks = [
                msgspec.structs.replace(task, replicas=wanted[task.name], min_available=None)
                if task.name in wanted
                else task
                for task in spec.tasks
            ]
            total = sum(task.replicas for task in tasks)
            return msgspec.structs.replace(spec, tasks=tasks, min_available=min(spec.min_available, total))

        self._change_spec(scaled, "scaled: " + ", ".join(f"{task} {count}" for task, count in wanted.items()))

    def _suspend(self, fields: Mapping[str, object]) -> None:
        suspend = bool(fields["suspend"])
        told = f"spec.suspend: {str(suspend).lower()}"
        self._change_spec(lambda spec: msgspec.structs.replace(spec, suspend=suspend), told)

    def _change_spec(self, change: Callable[[JobSpec], JobSpec], told: str) -> None:
        job = self.world.jobs.get(self.key)
        if job is not None:
            self.world.put_job(msgspec.structs.replace(job, spec=change(job.spec)))
            self.story.tell("SpecChanged", told)

    def _change_group(self, fields: Mapping[str, object]) -> None:
        group = self.world.groups.get(self.key)
        if group is not None:
            group.phase = str(fields["group"])
            self.world.touch(self.key)
            self.story.tell("GroupChanged", f"PodGroup is {group.phase}")
