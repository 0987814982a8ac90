"""Drives a job on the memory engine step by step: pods, users, failing calls and crashes.

Everything that the controller does passes through `WatchedEngine`, which holds each single call against what must
always be true. What must be true once everything has come to rest is checked by `rest.check_rest`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from pumice.engines.memory.cluster_state import StoredPod, World
from pumice.engines.memory.engine import CallFailure
from pumice.engines.memory.timeline import VirtualClock
from pumice.model.job import Job, JobStatus, Manifest, Metadata
from pumice.model.snapshot import Command, ContainerEnd, JobKey, PodPhase
from pumice.reconcile.ledger import Ledger, read_ledger
from pumice.runtime.loop import Loop
from tests.builders import a_context
from tests.scenarios.crashes import CrashError
from tests.scenarios.serving import serve_next
from tests.scenarios.watched import WatchedEngine

CONTEXT = a_context()
MOST_PASSES = 400


@dataclass(slots=True)
class Driver:
    document: Manifest
    slow: bool = False  # pods take their time to end, until `gone` is called
    gang: bool = True
    world: World = field(default_factory=lambda: World(VirtualClock()))
    engine: WatchedEngine = field(init=False)
    loop: Loop = field(init=False)
    key: JobKey = field(init=False)
    failures: list[CallFailure | None] = field(default_factory=list)  # of the calls to come
    crash_after: int | None = None  # how many calls the controller still lives
    passes: int = 0
    crashes: int = 0
    commands: int = 0

    def __post_init__(self) -> None:
        self.engine = WatchedEngine(self.world, gang=self.gang)
        self.engine.fail_call = lambda _call: self.failures.pop(0) if self.failures else None
        self.engine.after_call = self._after_call
        self.engine.on_deleting = self._deleting
        self.key = self.world.put_job(msgspec.convert(self.document, Job))
        self.start_controller()

    # --- the controller

    def start_controller(self) -> None:
        """A new one that knows nothing; its first list of jobs stands for all that it missed."""
        self.loop = Loop(self.engine, CONTEXT, self.world.clock)
        self.loop.queue.add(self.key)

    def step(self) -> bool:
        """Serve one key; a crash starts a new controller."""
        try:
            served = serve_next(self.loop, self.world)
        except CrashError:
            self.crashes += 1
            self.start_controller()
            served = True
        self.passes += served
        return served

    def settle(self) -> None:
        """Let the controller do all that it has to do at this moment."""
        for _ in range(MOST_PASSES):
            if not self.step():
                return
        raise AssertionError(f"no rest: {self.shown()}")

    def come_to_rest(self) -> None:
        """Nothing more happens by itself; only time passes, until the controller has no appointment left.

        Pods that take their time to end go when nothing else is left to wait for: some never end.
        """
        self.failures.clear()
        self.crash_after = None
        for _ in range(MOST_PASSES):
            self.settle()
            moment = self.loop.queue.next_due()
            dying = [stored.seen for stored in self.pods if stored.seen.is_deleting]
            if moment is not None:
                self.world.clock.move_to(moment)
            elif dying:
                self.check_nothing_more()
                self.gone(dying[0].short_name)
            else:
                return
        raise AssertionError(f"no rest: {self.shown()}")

    def check_nothing_more(self) -> None:
        """A further pass does nothing, not even much later, nor by a controller that knows nothing."""
        before, calls = self.shown(), self.engine.calls
        self.wait(86400)
        for _ in range(2):
            self.loop.queue.add(self.key)
            self.settle()
            assert self.shown() == before
            assert self.engine.calls == calls
            self.start_controller()

    # --- what happens to the job

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
    def ledger(self) -> Ledger:
        return read_ledger(self.status)

    @property
    def is_there(self) -> bool:
        return self.key in self.world.jobs

    @property
    def pods(self) -> list[StoredPod]:
        return self.world.pods_of(self.key)

    def pod(self, name: str) -> StoredPod:
        return next(stored for stored in self.pods if stored.seen.short_name == name)

    def run(self, *names: str) -> None:
        """These pods (all, if none is named) start to run."""
        for stored in self.pods:
            seen = stored.seen
            if seen.phase is PodPhase.PENDING and not seen.is_deleting and (not names or seen.short_name in names):
                self.change(seen.short_name, phase=PodPhase.RUNNING, ready=True)

    def change(self, name: str, **fields: object) -> None:
        self.world.change_pod(self.key, self.pod(name).seen.name, **fields)

    def end(self, name: str, code: int = 0, reason: str = "") -> None:
        seen = self.pod(name).seen
        end = ContainerEnd(seen.task, code, reason, finished_at=self.world.clock.now)
        self.world.end_pod(self.key, seen.name, end)

    def succeed(self, *names: str) -> None:
        for name in names or [stored.seen.short_name for stored in self.pods if stored.seen.phase is PodPhase.RUNNING]:
            self.end(name)

    def evict(self, name: str) -> None:
        """Somebody else asks for the pod's removal."""
        stored = self.pod(name)
        if self.world.delete_pod(self.key, stored.seen.name):
            self._deleting(self.key, stored)

    def gone(self, name: str) -> None:
        seen = self.pod(name).seen
        self.world.vanish(self.key, seen.name, seen.uid)

    def command(self, action: str) -> None:
        self.commands += 1
        self.world.send(self.key, Command(action=action, metadata=Metadata(name=f"command-{self.commands}")))

    def change_spec(self, **fields: object) -> None:
        job = self.job
        self.world.put_job(msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **fields)))

    def scale(self, **replicas: int) -> None:
        tasks = [
            msgspec.structs.replace(task, replicas=replicas[task.name], min_available=None)
            if task.name in replicas
            else task
            for task in self.job.spec.tasks
        ]
        total = sum(task.replicas for task in tasks)
        self.change_spec(tasks=tasks, min_available=min(self.job.spec.min_available, total))

    def group_is(self, phase: str) -> None:
        if self.key in self.world.groups:
            self.world.groups[self.key].phase = phase
            self.world.touch(self.key)

    def wait(self, seconds: float) -> None:
        self.world.clock.move_to(self.world.clock.now + dt.timedelta(seconds=seconds))

    def after(self, *steps: Callable[[], object]) -> None:
        """Each of these, and what the controller makes of it."""
        for step in steps:
            step()
            self.settle()

    def shown(self) -> str:
        if not self.is_there:
            return "the job is gone"
        pods = {stored.seen.short_name: (stored.seen.phase, stored.seen.deleted_at) for stored in self.pods}
        return f"{msgspec.to_builtins(self.status)} {pods}"

    # --- the engine's hooks

    def _after_call(self, _call: str) -> None:
        if self.crash_after is None:
            return
        if self.crash_after == 0:
            self.crash_after = None
            raise CrashError
        self.crash_after -= 1

    def _deleting(self, key: JobKey, stored: StoredPod) -> None:
        if not self.slow:
            self.world.vanish(key, stored.seen.name, stored.seen.uid)


def task(name: str = "worker", replicas: int = 2, **fields: object) -> Manifest:
    template = {"spec": {"containers": [{"name": name, "image": "example.com/image:1"}], "restartPolicy": "Never"}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def a_job(*tasks: Manifest, **spec: object) -> Manifest:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "lab"},
        "spec": {"tasks": list(tasks) or [task()], **spec},
    }


def policy(action: str, event: str = "PodFailed", **fields: object) -> Manifest:
    return {"action": action, "event": event, **fields}
