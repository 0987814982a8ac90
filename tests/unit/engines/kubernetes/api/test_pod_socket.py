"""WebSockets to pods: who answers for the API server does not choose where they lead."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pumice.engines.kubernetes.api.errors import UnreachableError
from pumice.engines.kubernetes.api.pod_socket import PodSocket
from pumice.engines.kubernetes.auth.access import Access
from pumice.engines.kubernetes.auth.credentials import StaticCredentials


def test_a_redirect_is_not_followed() -> None:
    asyncio.run(_meet_a_redirect())


async def _meet_a_redirect() -> None:
    asked: list[str] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        answer = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await answer.prepare(request)
        return answer

    other = web.Application()
    other.router.add_get("/{path:.*}", elsewhere)
    async with TestServer(other) as target:

        async def redirect(_request: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(str(target.make_url("/stolen")))

        app = web.Application()
        app.router.add_get("/{path:.*}", redirect)
        async with TestServer(app) as server:
            access = Access(str(server.make_url("")).rstrip("/"), "default", None, StaticCredentials({}), "test")
            with pytest.raises(UnreachableError, match="redirects to another address"):
                await PodSocket.open(access, "/exec", ())
    assert not asked
