from __future__ import annotations

import json
from typing import cast

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.controller.owned_objects import OwnedObjectManager
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.model.job import Job
from pumice.model.objects import Once
from pumice.model.snapshot import JobKey
from pumice.plugins.owned_objects import owned_objects
from pumice.plugins.registry import Registry
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.ports import EngineError
from tests.builders import UID, a_job
from tests.unit.engines.kubernetes.played_api import Handler, Script, client_of, play, refusing

JOB: Job = a_job(plugins={"ssh": []})
KEY = JobKey(JOB.namespace, JOB.name)


def a_keeper(client: Client) -> OwnedObjectManager:
    cache = ClusterCache(client, kubernetes_types().types, (), lambda _key: None)
    return OwnedObjectManager(client, cache, SecretManager(client, lambda _key: None, lambda: 0.0))


def the_secret() -> Once:
    plugins = Registry().resolve({"ssh": []}).plugins
    return next(one for one in owned_objects(JOB, plugins) if isinstance(one, Once))


def saying(owner: str, uid: str = "s1") -> Handler:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        metadata = {"name": "train-ssh", "namespace": "lab", "uid": uid, "ownerReferences": [{"uid": owner}]}
        return web.json_response({"metadata": metadata, "data": {"config": ""}})

    return handler


def test_a_secret_that_cannot_be_looked_at_is_a_trouble_and_no_defect() -> None:
    async def story() -> None:
        async with client_of(refusing(403, "Forbidden")) as client:
            keeper = a_keeper(client)
            with pytest.raises(EngineError, match="could not look at Secret train-ssh: said Forbidden"):
                await keeper.observed(JOB)
            with pytest.raises(EngineError, match="train-ssh"):
                await keeper.ensure(JOB, the_secret())

    play(story())


def test_the_secret_of_somebody_else_is_not_touched() -> None:
    """It was ours when it was last seen; since then somebody has put his own in its place."""

    async def story() -> list[bytes]:
        script = Script(saying(UID), refusing(409, "Conflict"))
        async with client_of(script) as client:
            keeper = a_keeper(client)
            assert ("Secret", "train-ssh") in await keeper.observed(JOB)
            with pytest.raises(EngineError):
                await keeper.ensure(JOB, the_secret())
            await a_removal(keeper)
        return script.bodies

    async def a_removal(keeper: OwnedObjectManager) -> None:
        keeper.secrets.put(KEY, UID, "train-ssh", {}, "s1")
        with pytest.raises(EngineError):
            await keeper.remove(JOB, "Secret", "train-ssh")

    _, patch, delete = (json.loads(body) for body in play(story()))
    assert patch["metadata"] == {"uid": "s1"}
    assert delete["preconditions"] == {"uid": "s1"}


@pytest.mark.parametrize(("code", "reason"), [(422, "Invalid"), (400, "BadRequest")])
def test_what_a_secret_holds_is_not_told(code: int, reason: str) -> None:
    async def quoting(request: web.BaseRequest) -> web.StreamResponse:
        sent = (await request.read()).decode()
        return web.json_response({"kind": "Status", "reason": reason, "message": f"what is {sent}?"}, status=code)

    async def story() -> str:
        async with client_of(Script(refusing(404, "NotFound"), quoting)) as client:
            with pytest.raises(EngineError) as caught:
                await a_keeper(client).ensure(JOB, the_secret())
            return str(caught.value)

    assert play(story()) == f"could not create Secret train-ssh: the API server refused it as {reason}"


def test_nothing_is_remembered_of_a_job_that_is_gone_or_after_somebody_else_was_at_work() -> None:
    async def story() -> None:
        async with client_of(saying(UID)) as client:
            keeper = a_keeper(client)
            for is_gone in (True, False):
                await keeper.observed(JOB)
                assert keeper.secrets._known
                assert keeper.secrets._line
                if is_gone:
                    keeper.forget(KEY)
                else:
                    keeper.start_over()
                assert (keeper.secrets._known, keeper.secrets._line, keeper._contents) == ({}, {}, {})

    play(story())


def test_a_keeper_needs_no_server_to_forget() -> None:
    keeper = a_keeper(cast(Client, None))
    keeper.forget(KEY)
    assert keeper.secrets.own_uid("lab", "train-ssh") is None
