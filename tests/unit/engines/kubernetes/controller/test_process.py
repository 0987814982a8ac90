"""The controller without a reachable cluster; tests/cluster has one."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.controller import monitoring
from pumice.engines.kubernetes.controller.monitoring import ApiServerCheck
from pumice.engines.kubernetes.controller.process import Controller, Settings
from pumice.engines.memory.timeline import EPOCH
from pumice.model.snapshot import JobKey
from pumice.plugins.registry import Registry
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.queue import KeyQueue
from tests.patience import PATIENCE
from tests.unit.engines.kubernetes.played_api import Handler, access_to, client_of, cut, good, played, refusing


async def silent(_request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


def a_controller(client: Client) -> Controller:
    settings = Settings(listen=("127.0.0.1", 0), leader_elect=False)
    return Controller(client, settings, Registry({}), kubernetes_types().types, lambda: EPOCH)


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    "answer", [pytest.param(cut, id="unreachable"), pytest.param(refusing(503, "Starting"), id="starting")]
)
@played
async def test_an_unreachable_server_is_reported_until_the_controller_stops(answer: Handler) -> None:
    async with client_of(answer) as client:
        controller, stop = a_controller(client), asyncio.Event()
        running = asyncio.create_task(controller.run(stop))
        while not controller.port:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
        assert await asyncio.to_thread(asked, controller.port, "/healthz") == (200, "ok\n")
        code, why = await asyncio.to_thread(asked, controller.port, "/readyz")
        assert code == 503
        assert "the API server" in why
        stop.set()
        await running


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(good, "", id="ready"),
        pytest.param(refusing(403, "Forbidden"), "", id="hidden"),
        pytest.param(refusing(500, "etcd failed"), "the API server is away: said etcd failed", id="without etcd"),
        pytest.param(cut, "the API server is away: ", id="gone"),
        pytest.param(silent, "the API server has not answered for 0 seconds", id="frozen"),
    ],
)
@played
async def test_the_api_server_is_checked(answer: Handler, expected: str) -> None:
    async with client_of(answer) as client:
        check = ApiServerCheck(client, failure="not asked yet")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(monitoring, "CHECK_TIMEOUT", 0.3 if answer is silent else 30.0)
            await check.check()
        assert check.failure.startswith(expected)
        assert bool(check.failure) == bool(expected)
        controller = a_controller(client)
        controller._waiting_for, controller.api_server = "", check
        assert controller._not_ready().startswith(expected or "not yet listed")


def test_changes_are_enqueued_only_while_leading() -> None:
    controller, key = a_controller(Client(access_to(1))), JobKey("lab", "train")
    controller._enqueue(key)
    controller.queues["lab"] = queue = KeyQueue()
    assert len(queue) == 0
    controller._enqueue(key)
    controller._enqueue(JobKey("other", "train"))
    assert queue.take(EPOCH) == key
    assert queue.take(EPOCH) is None
