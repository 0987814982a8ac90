"""Serves HTTP with a bounded number of connections, and a bounded time for each to send a request.

Every pod of a cluster can connect to the webhook, every program of the machine to the page. A client that holds
connections open must cost little and must not keep out the others, so the connection that has waited longest for its
first request is the first to be closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler

MOST_CONNECTIONS: Final = 200
HEAD_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 75.0
SECONDS_TO_FINISH: Final = 10.0
# So long the rest of a refused request is read, since a client that is still sending may not see the answer.
LINGER_SECONDS: Final = 1.0


class BoundedConnection(asyncio.Protocol):
    """Passes everything on to the protocol of the HTTP server, and closes the connection when its time is over."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self.inner = inner
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.abort)
        self.inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_request()
        self._connections.remove(self)
        self.inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def has_request(self) -> None:
        """Note that the head of a request has arrived: other limits apply from now on."""
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


@dataclass(slots=True)
class Connections:
    # In the order of their last request; those without any come first.
    _open: dict[asyncio.Protocol, BoundedConnection] = field(default_factory=dict)
    _used: dict[asyncio.Protocol, None] = field(default_factory=dict)

    def bounded(self, factory: Callable[[], asyncio.Protocol]) -> Callable[[], BoundedConnection]:
        return lambda: BoundedConnection(factory(), self)

    def add(self, connection: BoundedConnection) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            unused = (inner for inner in self._open if inner not in self._used)
            oldest = next(unused, None) or next(iter(self._used))
            self.abort(oldest)
        self._open[connection.inner] = connection

    def remove(self, connection: BoundedConnection) -> None:
        self._forget(connection.inner)

    def abort(self, inner: asyncio.Protocol) -> None:
        connection = self._open.get(inner)
        if connection is not None:
            connection.abort()
        self._forget(inner)

    def use(self, inner: asyncio.Protocol | None) -> None:
        """Note a request of a connection."""
        if inner is not None and inner in self._open:
            self._open[inner].has_request()
            self._used.pop(inner, None)
            self._used[inner] = None

    def _forget(self, inner: asyncio.Protocol) -> None:
        self._open.pop(inner, None)
        self._used.pop(inner, None)


@dataclass(slots=True)
class HttpServer:
    app: web.Application
    connections: Connections = field(default_factory=Connections)
    _listener: asyncio.Server | None = None
    _runner: web.AppRunner | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port; port 0 chooses a free one. Raises OSError if the port is taken."""
        # Not by the event loop: when two processes bind at the same moment, uvloop does not report the failure of one.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
        self.app.middlewares.append(self._note_use)
        self._runner = web.AppRunner(
            self.app,
            access_log=None,
            shutdown_timeout=SECONDS_TO_FINISH,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
        )
        await self._runner.setup()
        factory = cast(Callable[[], asyncio.Protocol], self._runner.server)
        self._listener = await asyncio.get_running_loop().create_server(
            self.connections.bounded(factory),
            sock=listener,
            ssl=tls,
            ssl_handshake_timeout=HEAD_SECONDS if tls else None,
            ssl_shutdown_timeout=1.0 if tls else None,
            backlog=1024,
        )
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Answer open requests, then stop."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _note_use(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.connections.use(request.protocol)
        return await handler(request)
