"""Connections to the API server: TCP and TLS, direct or through a proxy. Each carries one request at a time."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import SplitResult, unquote, urlsplit

from pumice.engines.kubernetes.api.http1 import ProtocolError, ResponseReader, encode_headers, encode_request
from pumice.engines.kubernetes.auth.access import Access

# With more unread bytes than this of a stream, the connection stops reading.
_MAX_UNREAD: Final = 1 << 20
_CONNECT_TIMEOUT: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}


async def connect(access: Access) -> Connection:
    """Open a connection. Raises OSError (including ssl.SSLError), TimeoutError and ProtocolError."""
    host, port = _endpoint(urlsplit(access.server))
    async with asyncio.timeout(_CONNECT_TIMEOUT):
        if access.proxy is not None and access.tls is not None:
            return await _connect_through_proxy(access, urlsplit(access.proxy), access.tls)
        transport, connection = await asyncio.get_running_loop().create_connection(
            Connection,
            host,
            port,
            ssl=access.tls,
            server_hostname=(access.server_name or host) if access.tls is not None else None,
        )
    _keep_alive(transport)
    return connection


async def _connect_through_proxy(access: Access, proxy: SplitResult, tls: ssl.SSLContext) -> Connection:
    loop = asyncio.get_running_loop()
    host, port = _endpoint(urlsplit(access.server))
    transport, connection = await loop.create_connection(Connection, *_endpoint(proxy))
    try:
        _keep_alive(transport)
        target = f"{f'[{host}]' if ':' in host else host}:{port}"
        headers = {"Host": target}
        if proxy.username is not None:
            secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            headers["Proxy-Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
        request = encode_request("CONNECT", target, encode_headers(headers), None)
        response = await connection.open_stream(request, _CONNECT_TIMEOUT)
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise ConnectionRefusedError(f"the proxy {proxy.hostname}:{proxy.port} answered {response.status}")
        connection.become_tunnel()
        secured = await loop.start_tls(transport, connection, tls, server_hostname=access.server_name or host)
    except BaseException:
        connection.close()
        raise
    if secured is None:
        raise ConnectionResetError("the proxy closed the connection")
    connection.connection_made(secured)
    return connection


def _endpoint(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or _PORTS[url.scheme]


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel notice a dead peer on a silent connection."""
    connected = transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed = self._loop.create_future()
        # The generation of the credentials whose certificate it presented, and when it was last used (loop time).
        self.generation = 0
        self.idle_since = 0.0
        # Whether the response to the current request has begun.
        self.responded = False
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._waiting: asyncio.Future[None] | None = None
        # The error that ended the connection, raised on the next use.
        self._failure: Exception | None = None
        self._streaming = self._paused = False
        self._unread = 0
        self._ready: Callable[[ResponseReader], bool] = _is_complete

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def request(self, request: bytes, seconds: float) -> ResponseReader:
        """Return the whole response. After OSError, TimeoutError or ProtocolError the connection is unusable."""
        self._streaming = False
        return await self._send(request, seconds, _is_complete)

    async def open_stream(self, request: bytes, seconds: float) -> ResponseReader:
        """Return the response as soon as its head has arrived; `read` then returns the body piece by piece."""
        self._streaming = True
        return await self._send(request, seconds, lambda reader: reader.status != 0)

    async def read(self, seconds: float) -> bytes:
        """Return the next bytes of the stream; empty at its end."""
        reader = self._reader
        while not (piece := reader.take()) and not reader.complete:
            await self._wait(seconds, lambda _reader: True)
        self._unread = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def become_tunnel(self) -> None:
        """Forget the proxy's response; from here on the proxy forwards everything."""
        self._reader = ResponseReader()
        self._streaming = False

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _send(self, request: bytes, seconds: float, ready: Callable[[ResponseReader], bool]) -> ResponseReader:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._reader = reader = ResponseReader()
        self.responded = False
        transport.write(request)
        await self._wait(seconds, ready)
        return reader

    async def _wait(self, seconds: float, ready: Callable[[ResponseReader], bool]) -> None:
        """Wait until the reader is ready. A cancelled wait closes the connection: its response may still arrive."""
        if self._failure is not None:
            raise self._failure
        self._waiting = waiting = self._loop.create_future()
        self._ready = ready
        timer = self._loop.call_later(seconds, self._time_out, waiting)
        try:
            await waiting
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting = None
            timer.cancel()

    @staticmethod
    def _time_out(waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_exception(TimeoutError())

    def _fail(self, error: Exception) -> None:
        self._failure = error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)

    # --- called by the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.responded = True
        reader, waiting = self._reader, self._waiting
        try:
            reader.feed(data)
        except ProtocolError as error:
            self._fail(error)
            self.close()
            return
        if self._streaming:
            self._unread += len(data)
            if self._unread > _MAX_UNREAD and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
        if waiting is not None and not waiting.done() and self._ready(reader):
            waiting.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        try:
            self._reader.feed_end()
        except ProtocolError as error:
            self._fail(exc or ConnectionResetError(str(error)))
        else:
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
        if not self.closed.done():
            self.closed.set_result(None)


def _is_complete(reader: ResponseReader) -> bool:
    return reader.complete
