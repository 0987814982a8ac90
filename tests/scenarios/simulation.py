"""Simulates one job on the memory engine. The controller runs until nothing is left to do after each event.

A test causes events (`sim.fail("worker-0", 137)`) and reads the results (`sim.phase`, `sim.counts`). Pods start, end
and vanish only when the test says so; unless the simulation is slow, deleted pods vanish at once. The invariants of the
life cycle are checked each time the controller has nothing left to do.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from pumice.admission.context import Context
from pumice.engines.memory.cluster_state import StoredPod, World
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.timeline import VirtualClock
from pumice.model import naming
from pumice.model.job import Job, JobSpec, JobStatus, Manifest, Metadata
from pumice.model.snapshot import Command, CommandTarget, ContainerEnd, JobKey, ObservedPod, PodPhase
from pumice.model.vocabulary import Phase
from pumice.reconcile.decision import EngineCommand, Ensure, JobEvent
from pumice.reconcile.ledger import read_ledger
from pumice.reconcile.phases import FINAL
from pumice.runtime.loop import Loop
from pumice.runtime.ports import EngineError
from tests.builders import a_context
from tests.scenarios.builders import scaled
from tests.scenarios.invariants import check_rest
from tests.scenarios.serving import finish, serve_next

MOST_PASSES = 300
CONTEXT = a_context()  # reading Kubernetes' schema is slow, and all simulations share it


@dataclass(slots=True)
class RecordingEngine(MemoryEngine):
    """Refuses what a test wants refused, as a quota or a webhook of somebody else would; keeps what was done."""

    refuse: Callable[[EngineCommand], EngineError | None] = lambda _command: None
    on_applied: Callable[[EngineCommand], None] = lambda _command: None
    done: list[EngineCommand] = field(default_factory=list)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        refusal = self.refuse(command)
        if refusal is not None:
            raise refusal
        await MemoryEngine.apply(self, key, command)
        self.done.append(command)
        self.on_applied(command)


class Simulation:
    def __init__(
        self,
        job: Job,
        *,
        slow: bool = False,
        gang: bool = True,
        admitted: bool = True,
        claims: tuple[str, ...] = (),
        up: bool = True,
        context: Context = CONTEXT,
    ) -> None:
        """`admitted`: whether the gang's scheduler lets a new PodGroup into its queue at once."""
        self.slow, self.admitted, self.context = slow, admitted, context
        self.world = World(VirtualClock())
        self.world.claims.update(claims)
        self.engine = RecordingEngine(self.world, gang=gang)
        self.engine.on_deleting = self._deleting
        self.engine.after_call = self._called
        self.engine.on_applied = self._applied
        self.phases: list[str] = []  # every phase that was written, in order
        self.keeps_trying = False  # something is refused, so the controller always has something left to do
        self._loop: Loop | None = None
        self.key = self.world.put_job(job)
        if up:
            self.up()

    # --- what there is

    @property
    def job(self) -> Job:
        return self.world.jobs[self.key]

    @property
    def status(self) -> JobStatus:
        return self.job.status

    @property
    def phase(self) -> str:
        return self.status.state.phase

    @property
    def reason(self) -> tuple[str, str]:
        return self.status.state.reason, self.status.state.message

    @property
    def counts(self) -> dict[str, int]:
        names = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
        return {name: count for name in names if (count := getattr(self.status, name))}

    @property
    def by_task(self) -> dict[str, dict[str, int]]:
        return {task: state.phase for task, state in self.status.task_status_count.items()}

    @property
    def spent(self) -> int:
        return read_ledger(self.status).spent

    @property
    def retries(self) -> tuple[int, int]:
        """`retryCount`, and how much of `maxRetry` is spent."""
        return self.status.retry_count, self.spent

    @property
    def seen(self) -> list[ObservedPod]:
        return [stored.seen for stored in self.world.pods_of(self.key)]

    @property
    def pods(self) -> dict[str, str]:
        """What state each pod is in; `Terminating` if it is on its way out."""
        return {pod.short_name: "Terminating" if pod.is_deleting else str(pod.phase) for pod in self.seen}

    @property
    def uids(self) -> dict[str, str]:
        return {pod.short_name: pod.uid for pod in self.seen}

    @property
    def owned_objects(self) -> dict[str, Manifest]:
        return {"/".join(key): manifest for key, manifest in self.world.objects.get(self.key, {}).items()}

    @property
    def group(self) -> Manifest | None:
        stored = self.world.groups.get(self.key)
        return None if stored is None else stored.manifest["spec"]

    def has_group(self) -> bool:
        return self.group is not None

    @property
    def events(self) -> list[JobEvent]:
        return [event for _, event in self.engine.events]

    def messages(self, reason: str) -> list[str]:
        return [event.message for event in self.events if event.reason == reason]

    @property
    def now(self) -> dt.datetime:
        return self.world.clock.now

    @property
    def passes(self) -> int:
        return self._loop.passes if self._loop is not None else 0

    # --- what pods do

    def run(self, *names: str, ready: bool = True) -> Simulation:
        """These pods (all that are pending, without names) are started."""
        for pod in self.seen:
            wanted = pod.short_name in names if names else pod.phase is PodPhase.PENDING
            if wanted and not pod.is_deleting:
                self.world.change_pod(self.key, pod.name, phase=PodPhase.RUNNING, ready=ready)
        return self.rest()

    def succeed(self, *names: str) -> Simulation:
        for name in names or [pod.short_name for pod in self.seen if pod.phase is PodPhase.RUNNING]:
            self._end(name, ContainerEnd("main", 0, "Completed"))
        return self.rest()

    def fail(self, name: str, code: int = 1, reason: str = "", **fields: Any) -> Simulation:
        self._end(name, ContainerEnd(fields.pop("container", "main"), code, reason, **fields))
        return self.rest()

    def end_containers(self, name: str, *ends: ContainerEnd, reason: str = "") -> Simulation:
        """The pod failed, with these ends of its containers in the order of its status."""
        pod = self.pod(name)
        self.world.change_pod(self.key, pod.name, phase=PodPhase.FAILED, ready=False, ends=ends, reason=reason)
        return self.rest()

    def change(self, name: str, **fields: Any) -> Simulation:
        self.world.change_pod(self.key, self.pod(name).name, **fields)
        return self.rest()

    def ask_out(self, *names: str) -> Simulation:
        """Somebody else asks for these pods to be deleted; they take their time."""
        for name in names:
            self.world.delete_pod(self.key, self.pod(name).name)
        return self.rest()

    def evict(self, *names: str) -> Simulation:
        """Somebody else removes these pods: at once, or after a while if the simulation is slow."""
        for name in names:
            pod = self.pod(name)
            if self.world.delete_pod(self.key, pod.name) and not self.slow:
                self.world.vanish(self.key, pod.name, pod.uid)
        return self.rest()

    def let_go(self, *names: str) -> Simulation:
        """End the deletion of pods after a while. Unless the simulation is slow, there are none."""
        leaving = [pod for pod in self.seen if pod.is_deleting and (not names or pod.short_name in names)]
        if leaving:
            self.wait(5)
            for pod in leaving:
                self.world.vanish(self.key, pod.name, pod.uid)
        return self.rest()

    def pod(self, name: str) -> ObservedPod:
        return next(pod for pod in self.seen if pod.short_name == name)

    # --- what people, schedulers and API servers do

    def command(self, action: str, uid: str | None = None, name: str = "") -> Simulation:
        target = CommandTarget(kind="Job", name=self.key.name, uid=self.job.uid if uid is None else uid)
        self.world.send(self.key, Command(metadata=Metadata(name=name), action=action, target=target))
        return self.rest()

    def scale(self, least: int | None = None, **sizes: int) -> Simulation:
        return self.update(scaled(self.job, sizes, least).spec)

    def suspend(self, suspend: bool = True) -> Simulation:  # noqa: FBT002 - reads as the field does
        return self.update(msgspec.structs.replace(self.job.spec, suspend=suspend))

    def update(self, spec: JobSpec) -> Simulation:
        self.world.put_job(msgspec.structs.replace(self.job, spec=spec))
        return self.rest()

    def write_status(self, change: Callable[[JobStatus], JobStatus]) -> Simulation:
        """Somebody else writes the job's status."""
        self.world.put_job(self.job)
        self.world.jobs[self.key] = msgspec.structs.replace(self.job, status=change(self.status))
        return self.rest()

    def set_group(self, phase: str, message: str = "") -> Simulation:
        group = self.world.groups[self.key]
        group.phase, group.message = phase, message
        self.world.touch(self.key)
        return self.rest()

    def lose(self, kind: str, name: str) -> Simulation:
        """Somebody removes an object of the job."""
        if kind == "PodGroup":
            del self.world.groups[self.key]
        else:
            del self.world.objects[self.key][(kind, name)]
        self.world.touch(self.key)
        return self.rest()

    def edit(self, kind: str, name: str, change: Callable[[Manifest], Manifest]) -> Simulation:
        there = self.world.objects[self.key]
        there[(kind, name)] = change(there[(kind, name)])
        self.world.touch(self.key)
        return self.rest()

    def add_claim(self, name: str) -> Simulation:
        self.world.claims.add(name)
        self.world.touch(self.key)
        return self.rest()

    def refuse(self, *kinds: type[EngineCommand], message: str = "no", reason: str = "Forbidden") -> Simulation:
        """From now on such commands are refused; without kinds: all works again."""

        def refuse(command: EngineCommand) -> EngineError | None:
            return EngineError(reason, message) if isinstance(command, kinds) else None

        self.engine.refuse, self.keeps_trying = refuse, bool(kinds)
        return self.wait(0 if kinds else 120)

    def replace_job(self, job: Job) -> Simulation:
        """The job is deleted, and made anew under its name at once."""
        self.world.delete_job(self.key)
        self.phases.clear()
        self.world.put_job(job)
        return self.rest()

    # --- time and the controller

    def down(self) -> Simulation:
        """The controller dies, with all that it kept in memory and on its queue."""
        self._loop = None
        self.world.changed.clear()
        return self

    def up(self) -> Simulation:
        self._loop = Loop(self.engine, self.context, self.world.clock)
        for key in self.world.jobs:
            self._loop.queue.add(key)
        return self.rest()

    def restart_controller(self) -> Simulation:
        return self.down().up()

    def wait(self, seconds: float) -> Simulation:
        """Time passes, and whatever the controller planned happens at its moment."""
        end = self.now + dt.timedelta(seconds=seconds)
        if self._loop is not None:
            self._serve()
        while self._loop is not None and (due := self._loop.queue.next_due()) is not None and due <= end:
            self.world.clock.move_to(due)
            self._serve()
        self.world.clock.move_to(end)
        return self.rest()

    def rest(self) -> Simulation:
        if self._loop is not None:
            self._serve()
            if self.key in self.world.jobs:
                check_rest(self)
        return self

    def again(self) -> tuple[JobStatus, list[EngineCommand]]:
        """The status and the commands of one more pass, though nothing has happened."""
        assert self._loop is not None
        before = len(self.engine.done)
        finish(self._loop.reconcile(self.key))
        return self.status, self.engine.done[before:]

    def _serve(self) -> None:
        assert self._loop is not None
        for _ in range(MOST_PASSES):
            if not serve_next(self._loop, self.world):
                return
        raise AssertionError(f"no rest after {MOST_PASSES} passes: {self.phases[-10:]}")

    # --- behind the scenes

    def _end(self, name: str, end: ContainerEnd) -> None:
        self.world.end_pod(self.key, self.pod(name).name, replace(end, finished_at=end.finished_at or self.now))

    def _deleting(self, key: JobKey, stored: StoredPod) -> None:
        if not self.slow:
            self.world.vanish(key, stored.seen.name, stored.seen.uid)

    def _applied(self, command: EngineCommand) -> None:
        group = self.world.groups.get(self.key)
        if isinstance(command, Ensure) and group is not None and not self.admitted:
            self.admitted, group.phase = True, ""

    def _called(self, call: str) -> None:
        if call == "write_status":
            phase = self.phase
            if not self.phases or self.phases[-1] != phase:
                if self.phases:
                    assert Phase(self.phases[-1]) not in FINAL, f"{self.phases[-1]} was left for {phase}"
                self.phases.append(phase)


def live_pods(sim: Simulation) -> Counter[tuple[str, int]]:
    return Counter((pod.task, pod.index) for pod in sim.seen if pod.is_live)


def pod_group_name(sim: Simulation) -> str:
    return naming.pod_group(sim.job.name, sim.job.uid)
