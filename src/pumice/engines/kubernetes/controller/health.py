"""Health of the controller: the server of `/healthz`, `/readyz` and `/metrics`, and the check of the API server."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.controller.metrics import CONTENT_TYPE

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


def health_app(not_ready: Callable[[], str], metrics: Callable[[], bytes]) -> web.Application:
    """`not_ready` returns what the controller waits for, or an empty string."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        reason = not_ready()
        return web.Response(status=503, text=reason + "\n") if reason else web.Response(text="ok\n")

    async def metrics_text(_request: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    for path, handler in (("/healthz", healthz), ("/readyz", readyz), ("/metrics", metrics_text)):
        app.router.add_get(path, handler)
    return app


async def serve(app: web.Application, host: str, port: int, *, any_port: bool) -> tuple[web.AppRunner, int]:
    """Listen and return the port. With `any_port`, a taken port is replaced by a free one."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        listening = await _listen(runner, host, port)
    except OSError as error:
        if not any_port or error.errno != errno.EADDRINUSE:
            await runner.cleanup()
            raise
        listening = await _listen(runner, host, 0)
        _log.warning("port %d is taken; health and metrics are on %d", port, listening)
    return runner, listening


async def _listen(runner: web.AppRunner, host: str, port: int) -> int:
    # Not by the event loop: when two processes bind at the same moment, uvloop does not report the failure of one.
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    await web.SockSite(runner, listener).start()
    return int(listener.getsockname()[1])
