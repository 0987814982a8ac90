"""Serves HTTP with a bounded number of connections, and a bounded time for each to send a request.

Every pod of a cluster can connect to the webhook, every program of the machine to the page. A client that holds
connections open must cost little and must not keep out the others. So when all connections are in use, one is closed
for the next: the oldest of those without an answered request, as long as these are the majority; else the one whose
last answer is longest ago. Neither a new client nor one that is served regularly loses its connection to clients that
send slowly.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

MOST_CONNECTIONS: Final = 200
HEAD_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 75.0
SECONDS_TO_FINISH: Final = 10.0
# So long the rest of a refused request is read, since a client that is still sending may not see the answer.
LINGER_SECONDS: Final = 1.0
_CALLERS_ERRORS: Final = (HttpProcessingError, web.RequestPayloadError, ConnectionError)


# Without the requests that are no HTTP: they are answered with 400, and any caller can send as many as it likes.
_log = logging.getLogger(__name__)
_log.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], _CALLERS_ERRORS)))


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
        self._connections.forget(self.inner)
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
    _open: dict[asyncio.Protocol, BoundedConnection] = field(default_factory=dict)  # oldest first
    _answered: dict[asyncio.Protocol, None] = field(default_factory=dict)  # in the order of their last answers

    def bounded(self, factory: Callable[[], asyncio.Protocol]) -> Callable[[], BoundedConnection]:
        return lambda: BoundedConnection(factory(), self)

    def add(self, connection: BoundedConnection) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            if len(self._answered) > MOST_CONNECTIONS // 2:
                self.abort(next(iter(self._answered)))
            else:
                self.abort(next(inner for inner in self._open if inner not in self._answered))
        self._open[connection.inner] = connection

    def abort(self, inner: asyncio.Protocol) -> None:
        connection = self._open.get(inner)
        if connection is not None:
            connection.abort()
        self.forget(inner)

    def note_request(self, inner: asyncio.Protocol | None) -> None:
        if inner is not None and inner in self._open:
            self._open[inner].has_request()

    def note_answer(self, inner: asyncio.Protocol | None) -> None:
        if inner is not None and inner in self._open:
            self._answered.pop(inner, None)
            self._answered[inner] = None

    def forget(self, inner: asyncio.Protocol) -> None:
        self._open.pop(inner, None)
        self._answered.pop(inner, None)


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
        self.app.middlewares.append(self._note)
        self._runner = web.AppRunner(
            self.app,
            access_log=None,
            logger=_log,
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
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.connections.note_request(request.protocol)
        response = await handler(request)
        self.connections.note_answer(request.protocol)
        return response
