from __future__ import annotations

import asyncio
import datetime as dt

import pytest
from aiohttp import web

from pumice.engines.kubernetes.webhook import webhook_process
from tests.patience import PATIENCE
from tests.unit.engines.kubernetes.played_api import access_to, play, serving


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - TLS uses the real time


@pytest.mark.parametrize("register", [pytest.param(False, id="not registered"), pytest.param(True, id="registered")])
@pytest.mark.parametrize("silent_from", [pytest.param(1, id="first request"), pytest.param(2, id="second request")])
def test_it_stops_while_the_api_server_does_not_answer(
    silent_from: int, monkeypatch: pytest.MonkeyPatch, *, register: bool
) -> None:
    """A request would time out only after half a minute, and be retried several times."""
    monkeypatch.setattr(webhook_process, "WITHDRAW_SECONDS", 0.1)
    requests = 0

    async def scenario() -> None:
        stop = asyncio.Event()

        async def silent(_request: web.BaseRequest) -> web.StreamResponse:
            nonlocal requests
            requests += 1
            if requests < silent_from:
                return web.Response(status=404)
            stop.set()
            await asyncio.sleep(600)
            return web.Response()

        async with serving(silent) as port, asyncio.timeout(PATIENCE):
            await webhook_process.run(
                webhook_process.Settings(access_to(port), "127.0.0.1", 0, register=register), now, stop
            )

    play(scenario())
