from __future__ import annotations

import asyncio
import datetime as dt

import pytest
from aiohttp import web

from pumice.engines.kubernetes.webhook import webhook_process
from tests.unit.engines.kubernetes.played_api import access_to, play, serving


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - TLS knows only the real time


@pytest.mark.parametrize("register", [pytest.param(False, id="beside it"), pytest.param(True, id="registered")])
@pytest.mark.parametrize("asked", [pytest.param(1, id="at its first question"), pytest.param(2, id="at its second")])
def test_it_ends_when_told_to_while_the_api_server_does_not_answer(
    asked: int, monkeypatch: pytest.MonkeyPatch, *, register: bool
) -> None:
    """Each question would be waited for for half a minute, and asked several times."""
    monkeypatch.setattr(webhook_process, "SECONDS_TO_WITHDRAW", 0.1)
    questions = 0

    async def story() -> None:
        stop = asyncio.Event()

        async def silent(_request: web.BaseRequest) -> web.StreamResponse:
            nonlocal questions
            questions += 1
            if questions < asked:
                return web.Response(status=404)
            stop.set()
            await asyncio.sleep(600)
            return web.Response()

        async with serving(silent) as port, asyncio.timeout(20):
            await webhook_process.run(
                webhook_process.Settings(access_to(port), "127.0.0.1", 0, register=register), now, stop
            )

    play(story())
