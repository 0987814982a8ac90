"""Plays a scenario on the memory engine: virtual time, pods that behave as told, a controller that may be away."""

from __future__ import annotations

import datetime as dt
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import msgspec

from pumice.admission.context import Context
from pumice.engines.memory.clock import EPOCH, VirtualClock
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.scenario import Behaviour, Expectation, Scenario, Step
from pumice.engines.memory.story import Story
from pumice.engines.memory.world import StoredPod, World
from pumice.model.command import Command
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, JobKey, PodPhase
from pumice.model.vocabulary import Phase
from pumice.runtime.loop import Loop

# Longer than anybody waits for a job; a story that goes on is cut off here.
HORIZON = dt.timedelta(days=7)
MOST_PASSES = 200_000
_AT_REST = frozenset((Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED, Phase.ABORTED))
_KILLED = 137
_TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an expectation was met, when, and what was there instead."""

    expectation: Expectation
    met_at: float | None
    found: dict[str, object]


@dataclass(slots=True)
class Simulation:
    job: Job
    scenario: Scenario
    context: Context
    world: World = field(init=False)
    engine: MemoryEngine = field(init=False)
    loop: Loop | None = field(init=False, default=None)
    story: Story = field(init=False)
    key: JobKey = field(init=False)
    passes: int = 0
    _happenings: list[tuple[dt.datetime, int, Callable[[], None]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _behaviours: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    _hanging: set[str] = field(default_factory=set)
    _met: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = World(VirtualClock())
        self.engine = MemoryEngine(self.world, on_created=self._created, on_deleting=self._deleting)
        self.story = Story(self.world, self.engine)
        self.key = self.world.put_job(self.job)
        self.story.key = self.key
        for volume in self.job.spec.volumes:
            self.world.claims.add(volume.volume_claim_name)

    async def run(self) -> list[Outcome]:
        for step in self.scenario.steps:
            self._later(EPOCH + step.at, lambda step=step: self._play(step))  # type: ignore[misc]
        self._start_controller()
        end = EPOCH + HORIZON
        while self.passes < MOST_PASSES:
            await self._settle()
            moment = self._next_moment()
            if moment is None or moment > end or self._is_over():
                break
            self.world.clock.move_to(moment)
            while self._happenings and self._happenings[0][0] <= self.world.clock.now:
                heapq.heappop(self._happenings)[2]()
        return [self._outcome(expectation) for expectation in self.scenario.expectations]

    async def _settle(self) -> None:
        """Let the controller come to rest at this moment."""
        loop = self.loop
        while loop is not None and self.passes < MOST_PASSES:
            for key in dict.fromkeys(self.world.changed):
                loop.queue.add(key)
            self.world.changed.clear()
            if not await loop.serve_next():
                break
            self.passes += 1
            self.story.listen()
            self._check_expectations()
        self.story.close_moment()
        self._check_expectations()

    def _next_moment(self) -> dt.datetime | None:
        moments = [self._happenings[0][0]] if self._happenings else []
        due = self.loop.queue.next_due() if self.loop is not None else None
        if due is not None:
            moments.append(due)
        return min(moments, default=None)

    def _is_over(self) -> bool:
        """Nothing more to come: the job rests, the file has no further steps, and all that is expected was seen."""
        job = self.world.jobs.get(self.key)
        rests = job is None or Phase(job.status.state.phase or Phase.PENDING) in _AT_REST
        steps = any(EPOCH + step.at > self.world.clock.now for step in self.scenario.steps)
        waits = job is not None and job.spec.ttl_seconds_after_finished is not None
        alive = any(pod.seen.is_live or pod.seen.is_deleting for pod in self.world.pods_of(self.key))
        return rests and not steps and not waits and not alive and self.loop is not None

    def _later(self, moment: dt.datetime, act: Callable[[], None]) -> None:
        heapq.heappush(self._happenings, (moment, next(self._order), act))

    def _start_controller(self) -> None:
        self.loop = Loop(self.engine, self.context, self.world.clock)
        for key in self.world.jobs:
            self.loop.queue.add(key)

    # What the file says.

    def _play(self, step: Step) -> None:
        fields = step.fields
        match step.kind:
            case "pods":
                self._behaviours.append((fields["pods"], {k: v for k, v in fields.items() if k != "pods"}))
                for stored in self.world.pods_of(self.key):
                    if self._matches(fields["pods"], stored) and stored.seen.phase is PodPhase.RUNNING:
                        self._run_on(stored)
            case "exit":
                self._end(fields["pod"], fields["exit"], fields["reason"], fields["signal"])
            case "evict":
                self._evict(fields["pod"])
            case "pending":
                self._hanging.add(fields["pod"])
            case "controller":
                self.loop = None
                self.story.tell("ControllerDown", f"controller down for {fields['for'].total_seconds():g}s")
                self._later(self.world.clock.now + fields["for"], self._start_controller)
            case "command":
                self.world.send(self.key, Command(action=fields["command"]))
                self.story.tell("CommandSent", f"Command {fields['command']}", action=fields["command"])
            case "scale":
                self._scale(fields["scale"])
            case "suspend":
                self._change(lambda spec: msgspec.structs.replace(spec, suspend=fields["suspend"]))
                self.story.tell("SpecChanged", f"spec.suspend: {str(fields['suspend']).lower()}")
            case "group" if self.key in self.world.groups:
                self.world.groups[self.key].phase = fields["group"]
                self.world.touch(self.key)
                self.story.tell("GroupChanged", f"PodGroup is {fields['group']}")

    def _scale(self, wanted: dict[str, int]) -> None:
        job = self.world.jobs[self.key]
        tasks = [
            msgspec.structs.replace(
                task,
                replicas=wanted.get(task.name, task.replicas),
                min_available=None if task.name in wanted else task.min_available,
            )
            for task in job.spec.tasks
        ]
        total = sum(task.replicas for task in tasks)
        self._change(
            lambda spec: msgspec.structs.replace(spec, tasks=tasks, min_available=min(spec.min_available, total))
        )
        self.story.tell("SpecChanged", "scaled: " + ", ".join(f"{task} {count}" for task, count in wanted.items()))

    def _change(self, change: Callable[..., object]) -> None:
        job = self.world.jobs[self.key]
        self.world.put_job(msgspec.structs.replace(job, spec=change(job.spec)))

    def _end(self, pod: str, code: int, reason: str, signal: int) -> None:
        stored = self._pod(pod)
        if stored is not None and not stored.seen.is_finished:
            end = ContainerEnd(stored.seen.task, code, reason, signal, self.world.clock.now)
            self.world.end_pod(self.key, stored.seen.name, end)
            self.story.pod_ended(stored.seen, end)
            self._fill_up()

    def _evict(self, pod: str) -> None:
        """Somebody else removes the pod: its process is told to end, and then it is gone."""
        stored = self._pod(pod)
        if stored is not None:
            self.story.tell("PodDeleted", f"{pod} is removed by somebody else", pod=pod)
            if self.world.ask_to_delete(self.key, stored.seen.name):
                self._deleting(self.key, self.world.pods[(self.key, stored.seen.name)], code=_TERMINATED)

    # What pods do.

    def _created(self, key: JobKey, stored: StoredPod) -> None:
        self.story.made(stored.seen)
        self._try_to_start(key, stored)

    def _try_to_start(self, key: JobKey, stored: StoredPod) -> None:
        name = stored.seen.short_name
        if name in self._hanging:
            self._hanging.discard(name)
            stored.seen = replace(stored.seen, reason="Hanging")
            return
        if self.scenario.capacity is not None and self._running() >= self.scenario.capacity:
            return
        stored.seen = replace(stored.seen, reason="Starting")
        behaviour = self._behaviour_of(stored)
        uid = stored.seen.uid
        self._later(self.world.clock.now + behaviour.start, lambda: self._start(key, stored.seen.name, uid))

    def _running(self) -> int:
        return sum(
            not pod.seen.is_finished and (pod.seen.phase is PodPhase.RUNNING or pod.seen.reason == "Starting")
            for pod in self.world.pods_of(self.key)
        )

    def _fill_up(self) -> None:
        """Room has become free: let those start that found none."""
        for stored in self.world.pods_of(self.key):
            if stored.seen.phase is PodPhase.PENDING and stored.seen.reason == "" and not stored.seen.is_deleting:
                self._try_to_start(self.key, stored)

    def _start(self, key: JobKey, name: str, uid: str) -> None:
        stored = self.world.pods.get((key, name))
        if stored is None or stored.seen.uid != uid or stored.seen.phase is not PodPhase.PENDING:
            return
        self.world.change_pod(key, name, phase=PodPhase.RUNNING, ready=True, reason="")
        self._run_on(stored)

    def _run_on(self, stored: StoredPod) -> None:
        behaviour = self._behaviour_of(stored)
        started, uid, name = self.world.clock.now, stored.seen.uid, stored.seen.short_name

        def finish() -> None:
            now = self._pod(name)
            if (
                now is not None
                and now.seen.uid == uid
                and now.seen.phase is PodPhase.RUNNING
                and not now.seen.is_deleting
            ):
                if self._behaviour_of(now) == behaviour:
                    self._end(name, behaviour.exit, behaviour.reason, 0)

        self._later(started + behaviour.run, finish)

    def _deleting(self, key: JobKey, stored: StoredPod, code: int = _TERMINATED) -> None:
        uid, name = stored.seen.uid, stored.seen.name
        stop = min(self._behaviour_of(stored).stop, stored.grace)

        def gone() -> None:
            if (key, name) in self.world.pods and self.world.pods[(key, name)].seen.uid == uid:
                self.world.vanish(key, name, uid)
                self._fill_up()

        self._later(self.world.clock.now + stop, gone)

    def _behaviour_of(self, stored: StoredPod) -> Behaviour:
        """All that was said about the pod so far; what was said last counts."""
        behaviour = Behaviour()
        for pattern, fields in self._behaviours:
            if self._matches(pattern, stored):
                behaviour = replace(behaviour, **fields)  # type: ignore[arg-type]  # read by ScenarioReader
        return behaviour

    def _matches(self, pattern: str, stored: StoredPod) -> bool:
        return pattern in ("*", stored.seen.task, stored.seen.short_name)

    def _pod(self, short_name: str) -> StoredPod | None:
        return next((pod for pod in self.world.pods_of(self.key) if pod.seen.short_name == short_name), None)

    # What is expected.

    def _check_expectations(self) -> None:
        for expectation in self.scenario.expectations:
            due = expectation.by is None or self.world.clock.elapsed <= expectation.by.total_seconds()
            if expectation.position not in self._met and due and expectation.by is not None:
                if self._found(expectation) == dict(expectation.what):
                    self._met[expectation.position] = self.world.clock.elapsed

    def _outcome(self, expectation: Expectation) -> Outcome:
        found = self._found(expectation)
        if expectation.by is None and found == dict(expectation.what):
            self._met[expectation.position] = self.world.clock.elapsed
        return Outcome(expectation, self._met.get(expectation.position), found)

    def _found(self, expectation: Expectation) -> dict[str, object]:
        """The same questions, with the answers as they are."""
        job = self.world.jobs.get(self.key)
        if job is None:
            return dict.fromkeys(expectation.what, "the job is gone")
        status = job.status
        known: dict[str, object] = {
            "phase": status.state.phase,
            "reason": status.state.reason,
            "retryCount": status.retry_count,
            "version": status.version,
            "pending": status.pending,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
            "terminating": status.terminating,
            "unknown": status.unknown,
        }
        found = {name: known[name] for name in expectation.what if name != "pods"}
        if "pods" in expectation.what:
            phases = {pod.seen.short_name: str(pod.seen.phase) for pod in self.world.pods_of(self.key)}
            found["pods"] = {pod: phases.get(pod, "gone") for pod in expectation.what["pods"]}
        return {name: found[name] for name in expectation.what}
