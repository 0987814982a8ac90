"""A hand on a job's world: it plays pods, people, faults and crashes on the memory engine, step by step.

Everything that the controller does passes through `WatchedEngine`, which holds each single call against what must
always be true. What must be true once everything has come to rest is checked by `Driver.check_rest`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from pumice.admission.admit import Admitted, admit
from pumice.engines.memory.clock import VirtualClock
from pumice.engines.memory.engine import CrashError, Fault, MemoryEngine
from pumice.engines.memory.world import StoredPod, World
from pumice.model.command import Command
from pumice.model.indexes import NONE
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import ContainerEnd, JobKey, PodPhase, Snapshot
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Phase
from pumice.plugins.companions import companions, manifest_of
from pumice.reconcile.decision import CreatePod, DeletePod, EngineCommand
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.ledger import Ledger, RestartKind, read_ledger, write_ledger
from pumice.reconcile.standing import WANTED
from pumice.runtime.loop import Loop
from tests.builders import a_context

T = TypeVar("T")

CONTEXT = a_context()
FINAL = {"Completed", "Failed", "Terminated"}
MOST_PASSES = 400


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what never really waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the memory engine waits for nobody")


@dataclass(slots=True)
class WatchedEngine(MemoryEngine):
    """The memory engine, every call held against the rules."""

    strict: bool = True  # off where two controllers act on outdated views: what they do wrong is mended afterwards
    made: int = 0
    history: list[JobStatus] = field(default_factory=list)

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        key = JobKey(snapshot.job.namespace, snapshot.job.name)
        before = self.world.jobs.get(key)
        try:
            # Not `super()`: a dataclass with slots is made anew, and the bare word would mean the one before.
            await MemoryEngine.write_status(self, snapshot, status)
        finally:
            after = self.world.jobs.get(key)
            if before is not None and after is not None and after.status != before.status:
                check_status(before.status, after.status)
                self.history.append(after.status)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        job = self.world.jobs.get(key)
        if job is not None and self.strict:
            if isinstance(command, CreatePod):
                self._check_creation(key, job, command.manifest)
            elif isinstance(command, DeletePod):
                self._check_deletion(key, job, command)
        self.made += isinstance(command, CreatePod)
        await MemoryEngine.apply(self, key, command)

    def _check_creation(self, key: JobKey, job: Job, manifest: Manifest) -> None:
        status, ledger, notes = job.status, read_ledger(job.status), manifest["metadata"]["annotations"]
        task, index = notes["volcano.sh/task-spec"], int(notes["volcano.sh/task-index"])
        spec = job.task(task)
        assert status.state.phase in {"Pending", "Running"}
        assert spec is not None
        assert 0 <= index < spec.replicas
        assert index not in ledger.succeeded.get(task, NONE), f"{task}-{index} has succeeded already"
        assert (key, manifest["metadata"]["name"]) not in self.world.pods, "an index has two pods"
        assert ledger.spent < (job.spec.max_retry or 3), "a run more than maxRetry allows"
        limit = spec.max_restarts
        assert limit is None or ledger.restarts_by_task.get(task, 0) <= limit
        if self.gang:
            assert key in self.world.groups, "a pod without its PodGroup"
        old = [stored.seen for stored in self.world.pods_of(key) if stored.seen.version < status.version]
        for pod in old:
            late = pod.deleted_at is not None and pod.deleted_at <= self.world.clock.now
            assert pod.is_finished or late, "pods of two runs at once"

    def _check_deletion(self, key: JobKey, job: Job, command: DeletePod) -> None:
        """A pod of the present run goes only if it is meant: by scaling, by a targeted restart, or by the end."""
        stored = self.world.pods.get((key, command.name))
        if stored is None or stored.seen.uid != command.uid or stored.seen.is_deleting:
            return
        pod, phase, task = stored.seen, job.status.state.phase, job.task(stored.seen.task)
        if phase not in {"Pending", "Running", "Restarting"}:
            assert not pod.is_finished, "a finished pod is kept when a job ends"
            return
        if pod.version < job.status.version or task is None or pod.index >= task.replicas:
            return
        restart = read_ledger(job.status).restart
        assert restart is not None
        assert restart.kind is RestartKind.TARGETS
        assert pod.index in restart.targets.get(pod.task, NONE), f"{pod.short_name} is nobody's target"
        assert pod.retry < restart.retry, "a pod that was made for this retry is not meant by it"


def check_status(before: JobStatus, after: JobStatus) -> None:
    """What holds between any two statuses in a row."""
    assert after.retry_count >= before.retry_count
    assert after.version >= before.version
    assert read_ledger(after).spent >= read_ledger(before).spent
    if before.state.phase in FINAL:
        assert after.state.phase == before.state.phase, "a finished phase was left"
    if after.state.phase == before.state.phase:
        assert after.state.last_transition_time == before.state.last_transition_time
    else:
        assert after.conditions[-1].status == after.state.phase
        assert after.conditions[-1].last_transition_time == after.state.last_transition_time
    ledger = read_ledger(after)
    again = read_ledger(JobStatus(controlled_resources=write_ledger(ledger)))
    assert again == ledger
    total = Counter[str]()
    for task in after.task_status_count.values():
        total.update(task.phase)
    counts = (after.pending, after.running, after.succeeded, after.failed, after.unknown)
    assert counts == tuple(total[name] for name in ("Pending", "Running", "Succeeded", "Failed", "Unknown"))


@dataclass(slots=True)
class Driver:
    document: Manifest
    slow: bool = False  # pods take their time to end, until `gone` is called
    gang: bool = True
    world: World = field(default_factory=lambda: World(VirtualClock()))
    engine: WatchedEngine = field(init=False)
    loop: Loop = field(init=False)
    key: JobKey = field(init=False)
    faults: list[Fault | None] = field(default_factory=list)  # of the calls to come
    crash_after: int | None = None  # how many calls the controller still lives
    passes: int = 0

    def __post_init__(self) -> None:
        self.engine = WatchedEngine(self.world, gang=self.gang)
        self.engine.faults = lambda _call: self.faults.pop(0) if self.faults else None
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
        for key in self.world.changed:
            self.loop.queue.add(key)
        self.world.changed.clear()
        try:
            served = finish(self.loop.serve_next())
        except CrashError:
            self.start_controller()
            served = True
        self.passes += served
        return served

    def settle(self) -> None:
        """Let the controller do all that it has to do at this moment."""
        for _ in range(MOST_PASSES):
            if not self.step():
                return
        raise AssertionError(f"no rest: {self.told()}")

    def come_to_rest(self) -> None:
        """Nothing more happens by itself; only time passes, until the controller has no appointment left."""
        self.faults.clear()
        self.crash_after = None
        for _ in range(MOST_PASSES):
            self.settle()
            moment = self.loop.queue.next_due()
            dying = [stored.seen for stored in self.pods if stored.seen.is_deleting]
            if dying:
                self.gone(dying[0].short_name)
            elif moment is None:
                return
            else:
                self.world.clock.move_to(moment)
        raise AssertionError(f"no rest: {self.told()}")

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
        if self.world.ask_to_delete(self.key, stored.seen.name):
            self._deleting(self.key, stored)

    def gone(self, name: str) -> None:
        seen = self.pod(name).seen
        self.world.vanish(self.key, seen.name, seen.uid)

    def command(self, action: str) -> None:
        self.world.send(self.key, Command(action=action))

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

    def told(self) -> str:
        if not self.is_there:
            return "the job is gone"
        pods = {stored.seen.short_name: (stored.seen.phase, stored.seen.deleted_at) for stored in self.pods}
        return f"{msgspec.to_builtins(self.status)} {pods}"

    # --- what must be true at rest

    def check_rest(self) -> None:
        self._check_nothing_more()
        if not self.is_there:
            assert not self.pods
            return
        admitted = admit(msgspec.to_builtins(self.job), CONTEXT)
        if not admitted.is_good:
            assert self.status.state.reason == "InvalidJob" or self.phase in FINAL
            return
        self._check_counts()
        self._check_objects(admitted)
        if self.phase in {"Pending", "Running"}:
            self._check_nobody_lost(admitted)
        else:
            assert self.phase in {*FINAL, "Aborted"}, self.told()
            assert all(stored.seen.is_finished for stored in self.pods), self.told()

    def _check_nothing_more(self) -> None:
        """A further pass does nothing, not even much later, nor by a controller that knows nothing."""
        before, calls = self.told(), self.engine.calls
        self.wait(86400)
        for _ in range(2):
            self.loop.queue.add(self.key)
            self.settle()
            assert self.told() == before
            assert self.engine.calls == calls
            self.start_controller()

    def _check_counts(self) -> None:
        status, there = self.status, Counter(str(stored.seen.phase) for stored in self.pods)
        present = {
            (stored.seen.task, stored.seen.index)
            for stored in self.pods
            if stored.seen.phase is PodPhase.SUCCEEDED and not stored.seen.is_deleting
        }
        remembered = {(task, index) for task, indexes in self.ledger.succeeded.items() for index in indexes}
        there["Succeeded"] += len(remembered - present)
        assert status.terminating == 0
        counts = (status.pending, status.running, status.succeeded, status.failed, status.unknown)
        assert counts == tuple(there[name] for name in ("Pending", "Running", "Succeeded", "Failed", "Unknown"))

    def _check_objects(self, admitted: Admitted) -> None:
        job = msgspec.structs.replace(self.job, spec=admitted.job.spec)
        wanted = {
            (manifest_of(one)["kind"], manifest_of(one)["metadata"]["name"]) for one in companions(job, admitted.plugins)
        }
        assert set(self.world.objects.get(self.key, {})) == (set() if self.phase in FINAL else wanted)
        assert (self.key in self.world.groups) == (self.gang and Phase(self.phase) in WANTED)

    def _check_nobody_lost(self, admitted: Admitted) -> None:
        there = {(stored.seen.task, stored.seen.index) for stored in self.pods}
        pods = tuple(stored.seen for stored in self.pods)
        job = msgspec.structs.replace(self.job, spec=admitted.job.spec)
        free = may_start(job, pods, self.ledger)
        group = self.world.groups.get(self.key)
        waits_for_group = self.gang and (group is None or group.phase in {"", "Pending"})
        waits_for_claim = self.status.state.reason == "ClaimMissing"
        for task in job.spec.tasks:
            for index in range(task.replicas):
                is_held = task.name not in free or waits_for_group or waits_for_claim
                known = (task.name, index) in there or self.ledger.has_succeeded(task.name, index)
                assert known or is_held, f"{task.name}-{index} is lost: {self.told()}"

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
