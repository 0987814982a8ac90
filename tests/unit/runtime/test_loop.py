from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar, cast

import msgspec
import pytest

from pumice.admission.admit import admit
from pumice.admission.context import Context
from pumice.engines.memory.cluster_state import World
from pumice.engines.memory.engine import CallFailure, MemoryEngine
from pumice.engines.memory.timeline import EPOCH, VirtualClock
from pumice.model.findings import Finding
from pumice.model.job import Job, JobStatus, Manifest
from pumice.model.objects import OwnedObject
from pumice.model.snapshot import ContainerEnd, JobKey, PodPhase, Snapshot
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from pumice.reconcile.decide import decide
from pumice.reconcile.decision import CreatePod, Decision, EngineCommand
from pumice.runtime.loop import ENOUGH_FAILURES, LONGEST_SPEC_AT_ONCE, Loop
from pumice.runtime.ports import ConflictError, Engine, EngineError
from tests.builders import a_context, a_document, a_template

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@dataclass(slots=True)
class Bench:
    """A loop over one job of the memory engine."""

    document: Manifest = field(default_factory=a_document)
    context: Context = field(default_factory=a_context)
    world: World = field(default_factory=lambda: World(VirtualClock()))
    engine: MemoryEngine = field(init=False)
    loop: Loop = field(init=False)
    key: JobKey = field(init=False)

    def __post_init__(self) -> None:
        self.engine = MemoryEngine(self.world)
        self.key = self.world.put_job(msgspec.convert(self.document, Job))
        self.loop = Loop(self.engine, self.context, self.world.clock)

    def serve(self) -> bool:
        for key in self.world.changed:
            self.loop.queue.add(key)
        self.world.changed.clear()
        return asyncio.run(self.loop.serve_next())

    def settle(self) -> None:
        for _ in range(50):
            if not self.serve():
                return
        raise AssertionError("no rest")

    def wait_for_next(self) -> None:
        due = self.loop.queue.next_due()
        assert due is not None
        self.world.clock.move_to(due)
        self.settle()

    def fail(self, call: str, failure: CallFailure, times: int = 1) -> None:
        left = [failure] * times
        self.engine.fail_call = lambda name: left.pop() if name == call and left else None

    @property
    def status(self) -> JobStatus:
        return self.world.jobs[self.key].status

    @property
    def reason(self) -> tuple[str, str]:
        return self.status.state.reason, self.status.state.message


def test_nothing_to_do() -> None:
    bench = Bench()
    bench.settle()
    assert bench.serve() is False


def test_the_status_is_written_first_then_the_commands_then_the_events() -> None:
    bench, calls = Bench(), list[str]()
    bench.engine.after_call = calls.append
    bench.settle()
    # The phase, the ledger and what follows; then the pod that was seen.
    assert calls == ["write_status", "Ensure", "CreatePod", "write_status"]
    assert bench.status.state.phase == "Pending"


def test_a_status_that_did_not_change_is_not_written() -> None:
    bench = Bench()
    bench.settle()
    version = bench.world.jobs[bench.key].metadata.resource_version
    bench.loop.queue.add(bench.key)
    bench.settle()
    assert bench.world.jobs[bench.key].metadata.resource_version == version


def test_counts_are_written_once_per_interval() -> None:
    task = {"name": "worker", "replicas": 4, "template": a_template(restartPolicy="Never")}
    bench = Bench(a_document(tasks=[task]))
    bench.loop = Loop(bench.engine, bench.context, bench.world.clock, status_interval=dt.timedelta(seconds=1))
    written: list[tuple[str, int, int]] = []

    def record(call: str) -> None:
        if call == "write_status":
            written.append((bench.status.state.phase, bench.status.pending, bench.status.running))

    bench.engine.after_call = record
    bench.settle()
    bench.wait_for_next()
    for stored in list(bench.world.pods.values()):
        bench.world.change_pod(bench.key, stored.seen.name, phase=PodPhase.RUNNING)
        bench.settle()
        bench.world.clock.move_to(bench.world.clock.now + dt.timedelta(milliseconds=100))
    assert written == [("Pending", 0, 0), ("Pending", 4, 0), ("Running", 0, 4)]
    bench.world.end_pod(bench.key, "train-worker-0", ContainerEnd("main", 0))
    bench.settle()
    # Its success is not written yet, but it is not forgotten: the pod is not created again.
    bench.world.vanish(bench.key, "train-worker-0", bench.world.pods[(bench.key, "train-worker-0")].seen.uid)
    bench.settle()
    assert len(written) == 3
    assert len(bench.world.pods) == 3
    bench.world.clock.move_to(bench.world.clock.now + dt.timedelta(seconds=1))
    bench.settle()
    assert written[3:] == [("Running", 0, 3)]
    assert bench.status.succeeded == 1


def test_a_conflict_is_looked_at_again_at_once() -> None:
    bench = Bench()
    bench.fail("write_status", CallFailure.CONFLICT)
    bench.settle()
    assert len(bench.world.pods) == 1
    assert bench.world.clock.now == EPOCH


def test_conflict_after_conflict_is_not_met_with_ever_more_writes() -> None:
    """The view is behind, and stays so for a while: to ask again and again does not make it faster."""
    bench = Bench()
    bench.fail("write_status", CallFailure.CONFLICT, times=100)
    for _ in range(10):
        while bench.serve():
            pass
        due = bench.loop.queue.next_due()
        assert due is not None
        bench.world.clock.move_to(due)
    assert bench.engine.calls <= 12
    assert bench.world.clock.now - EPOCH > dt.timedelta(seconds=1)
    bench.engine.fail_call = lambda _call: None
    bench.settle()
    assert len(bench.world.pods) == 1


@pytest.mark.parametrize("failure", [CallFailure.NOT_DONE, CallFailure.DONE])
def test_a_status_that_could_not_be_written_is_tried_again_later(failure: CallFailure) -> None:
    bench = Bench()
    bench.fail("write_status", failure)
    assert bench.serve()
    assert bench.engine.calls == 1
    bench.wait_for_next()
    assert len(bench.world.pods) == 1


def test_a_failure_is_reported_until_it_is_over() -> None:
    bench = Bench()
    bench.fail("CreatePod", CallFailure.NOT_DONE, times=6)
    bench.settle()
    bench.wait_for_next()
    assert bench.reason == ("Unavailable", "CreatePod did not work")
    while not bench.world.pods:
        bench.wait_for_next()
    assert bench.reason == ("", "")
    events = [event.reason for _, event in bench.engine.events]
    assert events.count("Unavailable") == 1


def test_a_failure_that_is_over_is_reported_no_longer_without_other_changes() -> None:
    """The pod was made, though the engine said no: the pass that finds it has nothing to do."""
    bench = Bench()
    bench.fail("CreatePod", CallFailure.DONE)
    bench.settle()
    bench.world.changed.clear()
    while bench.loop.queue.next_due() is not None:
        bench.wait_for_next()
    assert bench.reason == ("", "")


def test_one_failure_does_not_stop_the_other_commands() -> None:
    bench = Bench(a_document(plugins={"svc": [], "ssh": []}))
    bench.fail("Ensure", CallFailure.NOT_DONE)
    bench.settle()
    assert ("ConfigMap", "train-svc") in bench.world.objects[bench.key]
    bench.wait_for_next()
    assert ("Service", "train") in bench.world.objects[bench.key]


def test_several_failures_of_a_kind_are_reported_once() -> None:
    bench = Bench(a_document(tasks=[{"name": "worker", "replicas": 3, "template": a_template(restartPolicy="Never")}]))
    bench.fail("CreatePod", CallFailure.NOT_DONE, times=30)
    bench.settle()
    bench.wait_for_next()
    assert bench.reason == ("Unavailable", "CreatePod did not work")


class Choosy(MemoryEngine):
    """Makes no pods until it is allowed to, and counts who asks."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.allowed = False
        self.running = self.most = self.tried = 0

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        if isinstance(command, CreatePod):
            self.tried += 1
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1
            if not self.allowed:
                raise EngineError("FailedCreate", "no")
        await super().apply(key, command)

    def asked(self) -> tuple[int, int]:
        """How often since it was last asked, and how many at once."""
        counts, self.tried, self.most = (self.tried, self.most), 0, 0
        return counts


def test_after_a_refusal_commands_run_one_by_one_until_one_succeeds() -> None:
    task = {"name": "worker", "replicas": 64, "template": a_template(restartPolicy="Never")}
    bench = Bench(a_document(tasks=[task]))
    engine = bench.engine = Choosy(bench.world)
    loop = bench.loop = Loop(engine, bench.context, bench.world.clock, parallel=64)
    asyncio.run(loop.reconcile(bench.key))
    assert engine.asked() == (0, 0)  # first the PodGroup
    asyncio.run(loop.reconcile(bench.key))
    assert engine.asked() == (64, 64)
    asyncio.run(loop.reconcile(bench.key))
    assert engine.asked() == (ENOUGH_FAILURES, 1)
    engine.allowed = True
    asyncio.run(loop.reconcile(bench.key))
    assert engine.asked() == (64, 63)


def test_a_job_that_is_gone_is_forgotten() -> None:
    bench = Bench()
    bench.fail("CreatePod", CallFailure.NOT_DONE, times=99)
    bench.settle()
    bench.world.delete_job(bench.key)
    bench.wait_for_next()
    assert (bench.loop._failures, bench.loop.admitted) == ({}, {})


def test_an_appointment_is_kept() -> None:
    policies = [{"event": "PodPending", "action": "AbortJob", "timeout": "30s"}]
    bench = Bench(a_document(policies=policies))
    bench.settle()
    assert bench.loop.queue.next_due() == EPOCH + dt.timedelta(seconds=30)
    bench.wait_for_next()
    assert bench.status.state.phase in {"Aborting", "Aborted"}


def test_an_invalid_job_says_why() -> None:
    bench = Bench(a_document(queue="Not A Name", minAvailable=-1))
    bench.settle()
    reason, message = bench.reason
    assert reason == "InvalidJob"
    assert "spec.minAvailable: -1: " in message
    assert "spec.queue: Not A Name: " in message
    assert not bench.world.pods


def test_a_job_that_was_scaled_down_without_the_webhook_names_the_patch() -> None:
    tasks = [{"name": "w", "replicas": 2, "minAvailable": 3, "template": a_template(restartPolicy="Never")}]
    bench = Bench(a_document(minAvailable=3, tasks=tasks))
    bench.settle()
    findings, _, command = bench.reason[1].partition("; to lower it: ")
    assert "spec.tasks[0].minAvailable: 3: must be at most 2" in findings
    assert command.startswith("kubectl -n ")
    assert '{"op":"add","path":"/spec/tasks/0/minAvailable","value":2}' in command


def test_defaults_are_applied_in_memory_only() -> None:
    bench = Bench(a_document(tasks=[{"replicas": 1, "template": a_template(restartPolicy="Never")}]))
    bench.settle()
    assert [name for _, name in bench.world.pods] == ["train-default0-0"]
    assert bench.world.jobs[bench.key].spec.tasks[0].name == ""


def test_a_claim_that_volcano_made_is_kept_by_its_name() -> None:
    volume = {"mountPath": "/data", "volumeClaimName": "train-volume-abc", "volumeClaim": CLAIM}
    bench = Bench(a_document(volumes=[volume]))
    bench.world.claims.add("train-volume-abc")
    bench.settle()
    (stored,) = bench.world.pods.values()
    claims = [each["persistentVolumeClaim"]["claimName"] for each in stored.manifest["spec"]["volumes"]]
    assert claims == ["train-volume-abc"]


def test_a_job_is_admitted_once_for_each_spec() -> None:
    bench = Bench()
    bench.settle()
    admitted = bench.loop.admitted[bench.key]
    job = bench.world.jobs[bench.key]
    # An engine that decodes the job in each pass returns equal specs, not the same one.
    again = msgspec.convert(msgspec.to_builtins(job.spec), type(job.spec))
    bench.world.jobs[bench.key] = msgspec.structs.replace(job, spec=again)
    bench.loop.queue.add(bench.key)
    bench.settle()
    assert bench.loop.admitted[bench.key] is admitted
    bench.world.put_job(msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, max_retry=9)))
    bench.settle()
    assert bench.loop.admitted[bench.key] is not admitted


@pytest.mark.parametrize("part", ["written", "job"])
def test_a_job_that_the_caller_has_admitted_is_not_admitted_again(part: str) -> None:
    admitted = admit(a_document(), a_context())
    bench = Bench()
    bench.world.put_job(getattr(admitted, part))
    bench.loop.admitted[bench.key] = admitted
    bench.settle()
    assert bench.loop.admitted[bench.key] is admitted


@dataclasses.dataclass(frozen=True, slots=True)
class Moody(Base):
    """A third party's plugin that breaks when it is first asked for objects after admission."""

    name: ClassVar[str] = "moody"
    moods: ClassVar[list[bool]] = []

    def objects(self, job: Job) -> Iterable[OwnedObject]:  # noqa: ARG002 - any job will do
        if self.moods:
            raise RuntimeError("not today")
        return ()


def test_a_plugin_that_breaks_holds_only_its_job() -> None:
    bench = Bench(a_document(plugins={"moody": []}), a_context(Registry({"moody": Moody})))
    bench.settle()
    Moody.moods.append(True)
    try:
        bench.loop.queue.add(bench.key)
        bench.settle()
    finally:
        Moody.moods.clear()
    assert bench.reason == ("InvalidJob", "plugin moody failed: RuntimeError: not today")
    assert len(bench.world.pods) == 1
    bench.loop.queue.add(bench.key)
    bench.settle()
    assert bench.reason == ("", "")


@dataclass(slots=True)
class Blind(MemoryEngine):
    """An engine that cannot look."""

    error: Exception = field(default_factory=ConflictError)

    async def observe(self, key: JobKey) -> Snapshot | None:  # noqa: ARG002 - whichever it is
        raise self.error


@pytest.mark.parametrize(
    ("error", "again_at_once"),
    [
        pytest.param(EngineError("Unavailable", "no answer"), False, id="an engine that does not answer"),
        pytest.param(ConflictError(), True, id="another client was faster"),
    ],
)
def test_what_cannot_be_observed_comes_back(error: Exception, again_at_once: bool) -> None:
    clock = VirtualClock()
    loop, key = Loop(Blind(World(clock), error=error), a_context(), clock), JobKey("lab", "train")
    loop.queue.add(key)
    assert asyncio.run(loop.serve_next())
    assert (loop.queue.take(EPOCH) == key) is again_at_once
    assert loop.passes == 1


def test_a_defect_goes_up_and_the_key_comes_back() -> None:
    bench = Bench()

    def crash(_call: str) -> None:
        raise ZeroDivisionError

    bench.engine.after_call = crash
    with pytest.raises(ZeroDivisionError):
        bench.serve()
    bench.engine.after_call = lambda _call: None
    bench.wait_for_next()
    assert bench.world.jobs[bench.key].status.state.phase == "Pending"


@dataclass(slots=True)
class Gauge:
    """Counts how many calls of each kind are under way at once, and in which order the kinds came."""

    engine: MemoryEngine
    now: int = 0
    most: int = 0
    kinds: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.engine, name)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if not self.kinds or self.kinds[-1] != type(command).__name__:
            self.kinds.append(type(command).__name__)
        await asyncio.sleep(0)
        await self.engine.apply(key, command)
        self.now -= 1


def gauged(replicas: int, parallel: int) -> tuple[Bench, Gauge]:
    task = {"name": "worker", "replicas": replicas, "template": a_template(restartPolicy="Never")}
    document = a_document(tasks=[task])
    bench = Bench(document)
    gauge = Gauge(bench.engine)
    bench.loop.engine = cast(Engine, gauge)
    bench.loop.parallel = parallel
    return bench, gauge


def test_pods_are_made_at_once_within_bounds_and_after_what_they_mount() -> None:
    bench, gauge = gauged(replicas=20, parallel=8)
    bench.settle()
    assert len(bench.world.pods) == 20
    assert gauge.most == 8
    assert gauge.kinds == ["Ensure", "CreatePod"]


def test_a_pass_stops_after_enough_failures_and_the_next_one_goes_on() -> None:
    bench, _ = gauged(replicas=40, parallel=4)
    bench.fail("CreatePod", CallFailure.NOT_DONE, times=1000)
    bench.settle()
    assert bench.world.pods == {}
    assert bench.engine.calls < 30
    bench.engine.fail_call = lambda _call: None
    bench.wait_for_next()
    assert len(bench.world.pods) == 40


@dataclass(slots=True)
class Refusing:
    """Makes no pods, and says so in another order each time."""

    engine: MemoryEngine
    calls: int = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.engine, name)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        if not isinstance(command, CreatePod):
            await self.engine.apply(key, command)
            return
        self.calls += 1
        for _ in range(self.calls * 7 % 5):
            await asyncio.sleep(0)
        raise EngineError("FailedCreate", f"could not create Pod {command.manifest['metadata']['name']}")


def test_the_report_of_many_failures_does_not_depend_on_their_order() -> None:
    """Else each pass would write another message, and each message would bring the next pass."""
    bench, _ = gauged(replicas=40, parallel=9)
    bench.loop.engine = cast(Engine, Refusing(bench.engine))
    bench.settle()
    told = set()
    for _ in range(6):
        bench.wait_for_next()
        told.add(bench.reason[1])
    assert told == {"could not create Pod train-worker-0 (and 9 more)"}


def test_a_job_rests_in_proportion_to_how_long_it_took_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.loop.rest = 10.0

    def slow(snapshot: Snapshot, plugins: Sequence[Base], now: dt.datetime) -> Decision:
        bench.world.clock.move_to(now + dt.timedelta(milliseconds=30))
        bench.loop.queue.add(bench.key)
        return decide(snapshot, plugins, now)

    monkeypatch.setattr("pumice.runtime.loop.decide", slow)
    assert bench.serve()
    assert not bench.serve()
    assert bench.loop.queue.next_due() == bench.world.clock() + dt.timedelta(milliseconds=300)


def test_every_pass_can_be_followed(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_document(tasks=[{"name": "w", "replicas": 2, "template": a_template()}]))
    with caplog.at_level("INFO"):
        bench.serve()
    assert caplog.messages == []
    with caplog.at_level("DEBUG", logger="pumice.runtime.loop"):
        bench.settle()
    assert caplog.messages[0] == f"job {bench.key}: Pending; 2 CreatePod"


@pytest.mark.parametrize("large", [False, True])
def test_a_large_job_is_reconciled_in_a_thread(large: bool) -> None:
    threads: list[threading.Thread] = []

    @dataclass(frozen=True, slots=True)
    class Recorder(Base):
        name: ClassVar[str] = "recorder"

        def check(self, job: Job) -> Iterable[Finding]:
            threads.append(threading.current_thread())
            return super().check(job)

    note = "x" * (LONGEST_SPEC_AT_ONCE if large else 1)
    document = a_document(tasks=[{"replicas": 1, "template": a_template(hostname=note)}], plugins={"recorder": []})
    bench = Bench(document, msgspec.structs.replace(a_context(), registry=Registry({"recorder": Recorder})))
    with ThreadPoolExecutor(1) as bench.loop.threads:
        assert bench.serve()
    assert [thread is threading.main_thread() for thread in threads[:1]] == [not large]
