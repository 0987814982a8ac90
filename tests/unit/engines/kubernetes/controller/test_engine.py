"""The engine without a real server; tests/cluster has one."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import cast

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.cache.decode_jobs import CachedCommand, CachedJob
from pumice.engines.kubernetes.cache.decode_pods import CachedObject, CachedPod
from pumice.engines.kubernetes.controller.engine import KubernetesEngine
from pumice.engines.kubernetes.controller.event_recorder import EventRecorder
from pumice.engines.kubernetes.controller.monitoring import Metrics
from pumice.engines.kubernetes.controller.owned_objects import OwnedObjectManager
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.engines.memory.timeline import EPOCH
from pumice.model import keys
from pumice.model.bare_pod import bare_pod
from pumice.model.job import Job, JobState, JobStatus
from pumice.model.objects import owned
from pumice.model.snapshot import Command, JobKey, ObservedPod, PodPhase, Snapshot
from pumice.model.vocabulary import GROUP_VERSION, NO_GANG
from pumice.reconcile.decision import CreatePod, DeleteJob, DeletePod, EngineCommand, Ensure, Remove, RemoveCommand
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.ports import EngineError
from tests.builders import a_job, a_slot
from tests.unit.engines.kubernetes.played_api import Handler, Script, client_of, play, played, refusing

OLD = a_job(metadata={"uid": "old", "resource_version": "1"})
NEW = a_job(metadata={"uid": "new", "resource_version": "2"})
KEY = JobKey(OLD.namespace, OLD.name)


def an_engine(client: Client, *jobs: Job, enqueue: Callable[[JobKey], None] = lambda _key: None) -> KubernetesEngine:
    cache = ClusterCache(client, kubernetes_types().types, (), enqueue)
    for job in jobs:
        cache.jobs.put(CachedJob(job))
    recorder = EventRecorder(client, lambda: EPOCH)
    manager = OwnedObjectManager(client, cache, SecretManager(client, enqueue, lambda: 0.0))
    return KubernetesEngine(
        client=client,
        cache=cache,
        owned_objects=manager,
        gang=NO_GANG,
        pod_groups=None,
        recorder=recorder,
        metrics=Metrics(client, cache, recorder, {}),
        now=lambda: EPOCH,
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(CreatePod(bare_pod(a_slot(OLD)).manifest), id="a pod"),
        pytest.param(Ensure(owned(OLD, "v1", "ConfigMap", "train-svc", {"data": {}})), id="an owned object"),
    ],
)
def test_commands_for_a_job_are_not_applied_to_its_successor(command: EngineCommand) -> None:
    """A request would fail, because there is no server."""
    engine = an_engine(cast(Client, None), OLD, NEW)
    asyncio.run(engine.apply(KEY, command))
    assert engine.cache.jobs.get(KEY.namespace, KEY.name) == CachedJob(NEW)


@played
async def test_a_failed_status_write_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with client_of(refusing(403, "Forbidden")) as client:
            engine = an_engine(client, NEW)
            for _ in range(5):
                with pytest.raises(EngineError):
                    await engine.write_status(Snapshot(NEW), JobStatus(version=1))
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["job lab/train: could not write the status: said Forbidden; retrying"]


@pytest.mark.parametrize(
    ("status", "requeued"),
    [
        pytest.param({"state": {"phase": "Pending", "reason": "FailedCreate", "message": "no"}}, False, id="text"),
        pytest.param({"state": {"phase": "Running"}}, True, id="a phase"),
        pytest.param({"state": {"phase": "Pending"}, "version": 1}, True, id="a version"),
        pytest.param({"state": {"phase": "Pending"}, "controlledResources": {"a": "b"}}, True, id="the ledger"),
    ],
)
def test_a_write_of_only_reason_and_message_does_not_requeue(status: dict[str, object], requeued: bool) -> None:
    before = msgspec.structs.replace(NEW, status=JobStatus(state=JobState(phase="Pending")))
    after = msgspec.convert(status, JobStatus)
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "uid": "new", "resourceVersion": "3"}

    async def written(_request: web.BaseRequest) -> web.Response:
        return web.json_response({"metadata": metadata, "spec": {}, "status": status})

    async def story() -> bool:
        async with client_of(written) as client:
            engine = an_engine(client, before, enqueue=enqueued.append)
            enqueued.clear()
            await engine.write_status(Snapshot(before), after)
            seen = engine.cache.jobs.get(KEY.namespace, KEY.name)
            assert seen is not None
            assert seen.job.status == after
            return KEY in enqueued

    enqueued: list[JobKey] = []
    assert play(story()) is requeued


def test_passes_are_counted() -> None:
    engine = an_engine(cast(Client, None), msgspec.structs.replace(NEW))
    asyncio.run(engine.observe(KEY))
    asyncio.run(engine.observe(JobKey("lab", "unknown")))
    assert engine.metrics.passes == 2


def with_objects(client: Client, enqueue: Callable[[JobKey], None] = lambda _key: None) -> KubernetesEngine:
    engine = an_engine(client, NEW, enqueue=enqueue)
    observed = ObservedPod("p", "p1", "worker", 0, 0, 0, PodPhase.RUNNING, EPOCH)
    engine.cache.pods.put(CachedPod(KEY.namespace, "p", "p1", "3", KEY, "new", observed))
    engine.cache.commands.put(CachedCommand(KEY.namespace, "c", "c1", "4", KEY, Command()))
    engine.cache.owned_objects["Service"].put(CachedObject(KEY.namespace, "s", "s1", "5", KEY, "new"))
    return engine


def a_stored_pod(version: str, uid: str = "p1", *, owned: bool = True, **status: object) -> dict[str, object]:
    reference = {"apiVersion": GROUP_VERSION, "kind": "Job", "name": KEY.name, "uid": "new", "controller": owned}
    annotations = {keys.TASK_SPEC: "worker", keys.TASK_INDEX: "0"}
    metadata = {"name": "p", "namespace": KEY.namespace, "uid": uid, "resourceVersion": version}
    return {"metadata": {**metadata, "annotations": annotations, "ownerReferences": [reference]}, "status": status}


def responding(document: object) -> Handler:
    async def handler(_request: web.BaseRequest) -> web.Response:
        return web.json_response(document)

    return handler


@pytest.mark.parametrize(
    ("now", "pods", "finished"),
    [
        pytest.param(responding(a_stored_pod("9", phase="Succeeded")), ["p1"], True, id="finished: stays"),
        pytest.param(responding(a_stored_pod("9", phase="Running")), ["p1"], False, id="changed: decided again"),
        pytest.param(responding(a_stored_pod("9", uid="p2")), ["p2"], False, id="another pod"),
        pytest.param(responding(a_stored_pod("9", owned=False)), [], False, id="of no job any more"),
        pytest.param(refusing(404, "NotFound"), [], False, id="gone"),
    ],
)
def test_a_pod_that_has_changed_is_not_deleted_but_read(now: Handler, pods: list[str], finished: bool) -> None:
    async def story() -> tuple[list[bytes], list[CachedPod]]:
        script = Script(refusing(409, "Conflict"), now)
        async with client_of(script) as client:
            engine = with_objects(client, enqueued.append)
            enqueued.clear()
            await engine.apply(KEY, DeletePod("p", "p1", unless_finished=True))
            return script.bodies, list(engine.cache.pods_of.get(KEY, {}).values())

    enqueued: list[JobKey] = []
    (delete, _), left = play(story())
    assert json.loads(delete)["preconditions"] == {"uid": "p1", "resourceVersion": "3"}
    assert [pod.uid for pod in left] == pods
    assert any(pod.observed.is_finished for pod in left) is finished
    assert KEY in enqueued


def test_a_pod_that_is_known_to_have_finished_is_not_deleted() -> None:
    """A request would fail, because there is no server."""
    engine = with_objects(cast(Client, None))
    known = engine.cache.pods_of[KEY]["p"]
    done = msgspec.structs.replace(
        known, resource_version="4", observed=msgspec.structs.replace(known.observed, has_ended=True)
    )
    engine.cache.pods.put(done)
    asyncio.run(engine.apply(KEY, DeletePod("p", "p1", unless_finished=True)))
    assert engine.cache.pods_of[KEY] == {"p": done}


@played
async def test_a_pod_that_cannot_be_read_again_is_a_failure() -> None:
    async with client_of(Script(refusing(409, "Conflict"), refusing(403, "Forbidden"))) as client:
        with pytest.raises(EngineError, match="could not delete Pod p: said Forbidden"):
            await with_objects(client).apply(KEY, DeletePod("p", "p1", unless_finished=True))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(DeletePod("p", "p1"), id="a pod"),
        pytest.param(RemoveCommand("c", "c1"), id="a Command"),
        pytest.param(Remove("Service", "s"), id="an owned object"),
        pytest.param(DeleteJob("new"), id="the job"),
    ],
)
@pytest.mark.parametrize(
    ("code", "reason", "gone"),
    [pytest.param(404, "NotFound", True, id="gone"), pytest.param(409, "Conflict", False, id="conflict")],
)
def test_only_not_found_counts_as_removed(command: EngineCommand, code: int, reason: str, gone: bool) -> None:
    """A conflict may mean that another object has the name; the watch shows it, and the command is retried."""

    async def story() -> int:
        async with client_of(refusing(code, reason)) as client:
            engine = with_objects(client)
            if gone:
                await engine.apply(KEY, command)
            else:
                with pytest.raises(EngineError):
                    await engine.apply(KEY, command)
            cache = engine.cache
            return sum(len(index.get(KEY, {})) for index in (cache.pods_of, cache.commands_of, cache.owned_objects_of))

    left = play(story())
    assert left == (3 if isinstance(command, DeleteJob) or not gone else 2)
