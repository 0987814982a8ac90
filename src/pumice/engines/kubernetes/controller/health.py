"""A small HTTP server for those who look after the controller: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from pumice.engines.kubernetes.controller.metrics import CONTENT_TYPE

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Health:
    sick: Callable[[], str]  # empty, or what is wrong
    unready: Callable[[], str]  # empty, or what is waited for
    metrics: Callable[[], bytes]

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _answer(self.sick())

    async def _readyz(self, _request: web.Request) -> web.Response:
        return _answer(self.unready())

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self.metrics(), headers={"Content-Type": CONTENT_TYPE})


def _answer(problem: str) -> web.Response:
    return web.Response(status=503, text=problem + "\n") if problem else web.Response(text="ok\n")


async def serve(app: web.Application, host: str, port: int, *, any_port: bool) -> tuple[web.AppRunner, int]:
    """Listen. With `any_port`, one that is taken is replaced by a free one: two controllers may share a machine."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        port = await _listen(runner, host, port)
    except OSError as error:
        if not any_port or error.errno != errno.EADDRINUSE:
            await runner.cleanup()
            raise
        taken, port = port, await _listen(runner, host, 0)
        _log.warning("port %d is taken; metrics and health are on %d", taken, port)
    return runner, port


async def _listen(runner: web.AppRunner, host: str, port: int) -> int:
    # Not by the event loop: of two that begin to listen at the same moment, uvloop tells one nothing of its failure.
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    await web.SockSite(runner, listener).start()
    return int(listener.getsockname()[1])
