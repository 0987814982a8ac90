from __future__ import annotations

import contextlib
import json
from typing import cast

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.controller.owned_objects import OwnedObjectManager
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.model.job import Job, JobState, JobStatus
from pumice.model.objects import Once
from pumice.model.snapshot import JobKey
from pumice.plugins.registry import Registry
from pumice.plugins.shaping import owned_objects
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.ports import EngineError
from tests.builders import UID, a_job
from tests.unit.engines.kubernetes.played_api import Handler, Script, client_of, play, played, refusing

NEW: Job = a_job(plugins={"ssh": []})
JOB = msgspec.structs.replace(NEW, status=JobStatus(state=JobState(phase="Pending")))
KEY = JobKey(JOB.namespace, JOB.name)


def a_manager(client: Client) -> OwnedObjectManager:
    cache = ClusterCache(client, kubernetes_types().types, (), lambda _key: None)
    return OwnedObjectManager(client, cache, SecretManager(client, lambda _key: None, lambda: 0.0))


def the_secret() -> Once:
    plugins = Registry().resolve({"ssh": []}).plugins
    return next(one for one in owned_objects(JOB, plugins) if isinstance(one, Once))


def responding(owner: str, uid: str = "s1") -> Handler:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        metadata = {"name": "train-ssh", "namespace": "lab", "uid": uid, "ownerReferences": [{"uid": owner}]}
        return web.json_response({"metadata": metadata, "data": {"config": ""}})

    return handler


@played
async def test_a_forbidden_secret_is_an_engine_error() -> None:
    async with client_of(refusing(403, "Forbidden")) as client:
        manager = a_manager(client)
        with pytest.raises(EngineError, match="could not look at Secret train-ssh: said Forbidden"):
            await manager.observe(JOB)
        with pytest.raises(EngineError, match="train-ssh"):
            await manager.ensure(JOB, the_secret())


def test_a_foreign_secret_is_not_removed() -> None:
    """The job owned it when it was last seen; since then another one has taken its name."""

    async def story() -> list[bytes]:
        script = Script(responding(UID), refusing(409, "Conflict"))
        async with client_of(script) as client:
            manager = a_manager(client)
            assert ("Secret", "train-ssh") in await manager.observe(JOB)
            with pytest.raises(EngineError):
                await manager.remove(JOB, "Secret", "train-ssh")
        return script.bodies

    look, delete = (json.loads(body) for body in play(story()))
    assert look == {}
    assert delete["preconditions"] == {"uid": "s1"}


def test_a_secret_whose_uid_is_unknown_is_not_removed() -> None:
    async def story() -> list[bytes]:
        script = Script(refusing(500, "a call that must not happen"))
        async with client_of(script) as client:
            with pytest.raises(EngineError, match="its uid is not known yet"):
                await a_manager(client).remove(JOB, "Secret", "train-ssh")
        return script.bodies

    assert play(story()) == []


def test_the_secret_of_a_new_job_is_created_without_a_look() -> None:
    async def story() -> list[str]:
        script = Script(responding(UID))
        async with client_of(script) as client:
            manager = a_manager(client)
            assert await manager.observe(NEW) == {}
            await manager.ensure(NEW, the_secret())
            assert ("Secret", "train-ssh") in await manager.observe(JOB)
        return [request.method for request in script.asked]

    assert play(story()) == ["POST"]


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        pytest.param(UID, "", id="own: the response to its creation was lost"),
        pytest.param("other", "Secret train-ssh exists and does not belong to this job", id="of another owner"),
    ],
)
def test_a_secret_that_exists_is_not_written(owner: str, message: str) -> None:
    async def story() -> list[str]:
        script = Script(refusing(409, "AlreadyExists"), responding(owner))
        async with client_of(script) as client:
            manager = a_manager(client)
            with pytest.raises(EngineError, match=message) if message else contextlib.nullcontext():
                await manager.ensure(NEW, the_secret())
            # In the next pass it is known, or looked at before another key is generated.
            if message:
                await manager.observe(JOB)
                with pytest.raises(EngineError, match=message):
                    await manager.ensure(JOB, the_secret())
        assert all(body == b"{}" for body in script.bodies[1:])
        return [request.method for request in script.asked]

    assert play(story()) == ["POST", "PATCH", *(["PATCH"] if message else [])]


@pytest.mark.parametrize(("code", "reason"), [(422, "Invalid"), (400, "BadRequest")])
def test_the_content_of_a_secret_is_not_shown(code: int, reason: str) -> None:
    async def quoting(request: web.BaseRequest) -> web.StreamResponse:
        sent = (await request.read()).decode()
        return web.json_response({"kind": "Status", "reason": reason, "message": f"what is {sent}?"}, status=code)

    async def story() -> str:
        async with client_of(quoting) as client:
            with pytest.raises(EngineError) as caught:
                await a_manager(client).ensure(JOB, the_secret())
            return str(caught.value)

    assert play(story()) == f"could not create Secret train-ssh: the API server refused it as {reason}"


@played
async def test_contents_are_forgotten_with_the_job_and_with_leadership() -> None:
    async with client_of(responding(UID)) as client:
        manager = a_manager(client)
        for is_gone in (True, False):
            await manager.observe(JOB)
            assert manager.secrets._checked
            assert manager.secrets._watched
            if is_gone:
                manager.forget(KEY)
            else:
                manager.clear()
            assert (manager.secrets._checked, manager.secrets._watched, manager._contents) == ({}, {}, {})


def test_forgetting_an_unknown_job() -> None:
    manager = a_manager(cast(Client, None))
    manager.forget(KEY)
    assert manager.secrets._checked == {}
