"""The local engine: what it stores, and how it applies commands."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest

from pumice.engines.local.engine import ADMITTED, LocalEngine
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.model import keys
from pumice.model.job import JobStatus, Manifest
from pumice.model.objects import Once
from pumice.model.snapshot import JobKey, ObservedPod, PodPhase
from pumice.model.vocabulary import Action
from pumice.plugins.registry import Registry
from pumice.plugins.shaping import owned_objects
from pumice.reconcile.decision import (
    CreatePod,
    DeleteJob,
    DeletePod,
    EngineCommand,
    Ensure,
    JobEvent,
    Remove,
    RemoveCommand,
)
from pumice.runtime.ports import ConflictError
from tests.builders import a_job
from tests.patience import PATIENCE

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@dataclass
class StillPod:
    """A pod without processes."""

    manifest: Manifest
    uid: str
    address: str
    deleted_at: dt.datetime | None = None
    phase: PodPhase = PodPhase.RUNNING
    begun: bool = False
    graces: tuple[float | None, ...] = ()

    def begin(self) -> None:
        self.begun = True

    async def end(self, grace: float | None = None) -> None:
        self.deleted_at = NOON
        self.graces += (grace,)

    async def delete(self) -> None:
        await self.end()

    def observed(self) -> ObservedPod:
        name = self.manifest["metadata"]["name"]
        return ObservedPod(name, self.uid, "task", 0, 0, 0, self.phase, NOON, self.deleted_at)


def pod_manifest(name: str = "train-worker-0") -> Manifest:
    return {"metadata": {"name": name, "annotations": {keys.TASK_SPEC: "worker", keys.TASK_INDEX: name[-1]}}}


def an_engine() -> LocalEngine:
    job = a_job(metadata={"resource_version": "1"})
    return LocalEngine(
        job,
        lambda manifest, uid, address: cast(LocalPod, StillPod(manifest, uid, address)),
        address_of={"worker-0": "10.77.0.2", "worker-1": "10.77.0.3"}.__getitem__,
    )


def run(story: Callable[[LocalEngine], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await story(an_engine())

    asyncio.run(bounded())


async def apply(engine: LocalEngine, *commands: EngineCommand) -> None:
    for command in commands:
        await engine.apply(engine.key, command)


def test_it_observes_only_its_own_job() -> None:
    async def story(engine: LocalEngine) -> None:
        assert await engine.observe(JobKey("lab", "other")) is None
        snapshot = await engine.observe(engine.key)
        assert snapshot is not None
        assert (snapshot.job, snapshot.pods, snapshot.group) == (engine.job, (), None)
        await apply(engine, DeleteJob(engine.job.uid))
        assert await engine.observe(engine.key) is None

    run(story)


def test_a_status_is_written_by_compare_and_set() -> None:
    async def story(engine: LocalEngine) -> None:
        before = await engine.observe(engine.key)
        assert before is not None
        status = JobStatus(running=1)
        await engine.write_status(before, status)
        assert engine.job.status == status
        with pytest.raises(ConflictError):
            await engine.write_status(before, JobStatus(running=2))
        assert engine.job.status == status

    run(story)


def test_an_update_of_the_spec_raises_the_generation() -> None:
    async def story(engine: LocalEngine) -> None:
        before = await engine.observe(engine.key)
        assert before is not None
        engine.update(engine.job.spec)
        assert engine.job == before.job
        engine.update(msgspec.structs.replace(engine.job.spec, min_available=7))
        assert (engine.job.spec.min_available, engine.job.metadata.generation) == (
            7,
            before.job.metadata.generation + 1,
        )
        with pytest.raises(ConflictError):
            await engine.write_status(before, JobStatus())

    run(story)


def test_pods_are_created_once_and_deleted_by_uid() -> None:
    async def story(engine: LocalEngine) -> None:
        await apply(engine, *[CreatePod(pod_manifest())] * 2, CreatePod(pod_manifest("train-worker-1")))
        pods = [cast(StillPod, pod) for pod in engine.pods.values()]
        assert [(pod.address, pod.begun) for pod in pods] == [("10.77.0.2", True), ("10.77.0.3", True)]
        await apply(engine, DeletePod("train-worker-0", "another"), DeletePod("train-worker-9", pods[0].uid))
        await asyncio.sleep(0)
        assert len(engine.pods) == 2
        pods[1].phase = PodPhase.SUCCEEDED
        await apply(engine, DeletePod("train-worker-1", pods[1].uid, unless_finished=True))
        await apply(engine, *[DeletePod("train-worker-0", pods[0].uid, unless_finished=True)] * 2)
        await engine.end_all(5)
        assert list(engine.pods) == ["train-worker-1"]
        assert [pod.graces for pod in pods] == [(None,), (5,)]
        snapshot = await engine.observe(engine.key)
        assert snapshot is not None
        assert [pod.name for pod in snapshot.pods] == ["train-worker-1"]

    run(story)


def test_objects_are_stored_and_removed() -> None:
    async def story(engine: LocalEngine) -> None:
        config: Manifest = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
        await apply(
            engine,
            Ensure(config),
            Ensure({"kind": "PodGroup", "metadata": {"name": "g"}}),
            Ensure({"kind": "PersistentVolumeClaim", "metadata": {"name": "v"}}),
        )
        snapshot = await engine.observe(engine.key)
        assert snapshot is not None
        assert snapshot.owned_objects == {("ConfigMap", "c"): config}
        assert snapshot.claims == {"v"}
        assert snapshot.group is not None
        assert (snapshot.group.phase, snapshot.group.admits_pods) == (ADMITTED, True)
        await apply(engine, Ensure({**config, "data": {}}), Remove("PodGroup", "g"))
        assert (engine.objects["ConfigMap", "c"]["data"], engine.group) == ({}, None)
        await apply(engine, *[Remove("ConfigMap", "c")] * 2)
        assert engine.objects == {}

    run(story)


def test_ssh_keys_are_generated_once() -> None:
    plugins = Registry().resolve({"ssh": []}).plugins
    (secret,) = (each for each in owned_objects(a_job(), plugins) if isinstance(each, Once))

    async def story(engine: LocalEngine) -> None:
        await apply(engine, Ensure(secret))
        (first,) = engine.objects.values()
        await apply(engine, Ensure(secret))
        (second,) = engine.objects.values()
        assert first["stringData"]["id_rsa"]
        assert first["stringData"] == second["stringData"]

    run(story)


def test_commands_stay_until_they_are_removed() -> None:
    async def story(engine: LocalEngine) -> None:
        engine.send(Action.TERMINATE_JOB)
        snapshot = await engine.observe(engine.key)
        assert snapshot is not None
        (command,) = snapshot.commands
        assert (command.action, bool(command.metadata.uid)) == (Action.TERMINATE_JOB, True)
        await apply(engine, *[RemoveCommand(command.metadata.name, command.metadata.uid)] * 2)
        assert engine.commands == {}

    run(story)


def test_a_change_enqueues_the_job() -> None:
    async def story(engine: LocalEngine) -> None:
        for change in (engine.touch, lambda: engine.send(Action.ABORT_JOB)):
            assert engine.queue.take(NOON) is None
            change()
            assert engine.queue.take(NOON) == engine.key
            engine.queue.done(engine.key)

    run(story)


def test_events_are_passed_on() -> None:
    async def story(engine: LocalEngine) -> None:
        seen: list[JobEvent] = []
        engine.on_pass = lambda _engine, events: seen.extend(events)
        snapshot = await engine.observe(engine.key)
        assert snapshot is not None
        await engine.emit(snapshot, [JobEvent("Why", "because")])
        assert [event.reason for event in seen] == ["Why"]

    run(story)
