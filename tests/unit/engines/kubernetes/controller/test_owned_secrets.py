from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.controller import owned_secrets
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.model.snapshot import JobKey
from tests.unit.engines.kubernetes.played_api import Handler, Script, client_of, play

KEY = JobKey("lab", "train")
NAME = "train-ssh"


def owned_by(owner: str) -> Handler:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        document: dict[str, Any] = {"metadata": {"uid": "s1", "ownerReferences": [{"uid": owner}]}}
        return web.json_response({**document, "data": {"config": None, "id_rsa": "/w=="}})

    return handler


async def gone(_request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "Status", "reason": "NotFound", "message": "no such Secret"}, status=404)


def test_the_entries_of_a_secret_are_not_looked_at() -> None:
    async def story() -> object:
        async with client_of(owned_by("u1")) as client:
            manager = SecretManager(client, lambda _key: None, lambda: 0.0)
            return await manager.observe(KEY, "u1", NAME, watch=True)

    assert play(story()) == {"kind": "Secret", "metadata": {"name": NAME}}


@pytest.mark.parametrize("after", [pytest.param(gone, id="removed"), pytest.param(owned_by("other"), id="other owner")])
def test_a_change_enqueues_the_job(after: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_secrets, "CHECKS_PER_SECOND", 1000)

    async def story() -> list[JobKey]:
        enqueued, clock = asyncio.Queue[JobKey](), iter(range(0, 10**6, 100))
        async with client_of(Script(owned_by("u1"), after)) as client:
            manager = SecretManager(client, enqueued.put_nowait, lambda: float(next(clock)))
            await manager.observe(KEY, "u1", NAME, watch=True)
            running = asyncio.create_task(manager.run())
            first = asyncio.create_task(enqueued.get())
            await asyncio.wait((running, first), return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            return [await first]

    assert play(story()) == [KEY]
