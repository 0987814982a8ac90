"""Serves `/healthz`, `/readyz` and `/metrics`, and checks the API server."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.controller.metrics import CONTENT_TYPE
from pumice.runtime.http_server import HttpServer

_log = logging.getLogger(__name__)
CHECK_INTERVAL: Final = 2.0
CHECK_TIMEOUT: Final = 3.0


@dataclass(slots=True)
class ApiServerCheck:
    """Asks the API server every two seconds whether it is ready: a watch may be silent for minutes."""

    client: Client
    failure: str = ""  # why it does not serve requests, or empty

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_INTERVAL)

    async def check(self) -> None:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                await self.client.request("GET", "/readyz", urgent=True)
        except TimeoutError:
            self.failure = f"the API server has not answered for {CHECK_TIMEOUT:.0f} seconds"
        except ApiError as error:
            # Anything else is an answer, such as the refusal of a cluster that hides this path.
            self.failure = f"the API server is away: {' '.join(str(error).split())}" if error.is_transient else ""
        else:
            self.failure = ""


def health_app(not_ready: Callable[[], str]) -> web.Application:
    """`not_ready` returns what the controller waits for, or an empty string."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        reason = not_ready()
        return web.Response(status=503, text=reason + "\n") if reason else web.Response(text="ok\n")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def add_metrics(app: web.Application, metrics: Callable[[], bytes]) -> None:
    async def metrics_text(_request: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": CONTENT_TYPE})

    app.router.add_get("/metrics", metrics_text)


async def serve(app: web.Application, host: str, port: int, *, any_port: bool = False) -> tuple[HttpServer, int]:
    """Listen and return the port. With `any_port`, a taken port is replaced by a free one."""
    server = HttpServer(app)
    try:
        listening = await server.start(host, port)
    except OSError as error:
        if not any_port or error.errno != errno.EADDRINUSE:
            raise
        listening = await server.start(host, 0)
        _log.warning("port %d is taken; health and metrics are on %d", port, listening)
    return server, listening
