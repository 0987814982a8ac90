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


def holding(data: dict[str, Any] | None, owner: str = "u1") -> Handler:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        document: dict[str, Any] = {"metadata": {"uid": "s1", "ownerReferences": [{"uid": owner}]}}
        return web.json_response(document if data is None else {**document, "data": data})

    return handler


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({"config": "SG9zdCAq", "id_rsa": "AAAA"}, "Host *", id="valid"),
        pytest.param({"config": None}, "", id="null"),
        pytest.param({"config": "/w=="}, "", id="not UTF-8"),
        pytest.param({}, "", id="no entry"),
        pytest.param(None, "", id="no data"),
    ],
)
def test_any_content_of_a_secret_can_be_observed(data: dict[str, Any] | None, expected: str) -> None:
    async def story() -> object:
        async with client_of(holding(data)) as client:
            manager = SecretManager(client, lambda _key: None, lambda: 0.0)
            return await manager.observe(KEY, "u1", NAME, watch=True)

    assert play(story()) == {"kind": "Secret", "metadata": {"name": NAME}, "stringData": {"config": expected}}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(holding({"config": "SG9zdA=="}), id="edited"),
        pytest.param(holding({"config": None}), id="emptied"),
        pytest.param(holding({"config": "SG9zdCAq"}, owner="other"), id="other owner"),
    ],
)
def test_a_change_enqueues_the_job(after: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_secrets, "CHECKS_PER_SECOND", 1000)

    async def story() -> list[JobKey]:
        enqueued, clock = asyncio.Queue[JobKey](), iter(range(0, 10**6, 100))
        async with client_of(Script(holding({"config": "SG9zdCAq"}), after)) as client:
            manager = SecretManager(client, enqueued.put_nowait, lambda: float(next(clock)))
            await manager.observe(KEY, "u1", NAME, watch=True)
            running = asyncio.create_task(manager.run())
            first = asyncio.create_task(enqueued.get())
            await asyncio.wait((running, first), return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            return [await first]

    assert play(story()) == [KEY]
