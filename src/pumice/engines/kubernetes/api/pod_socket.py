"""WebSockets to containers: several streams in one connection, each message begins with the number of its stream."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self
from urllib.parse import urlencode

import aiohttp

from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.http1 import Headers, header_lines
from pumice.engines.kubernetes.api.transport import unreachable
from pumice.engines.kubernetes.auth.access import Access
from pumice.model import VERSION

V5: Final = "v5.channel.k8s.io"  # the end of a stream can be said; Kubernetes 1.30 and newer
V4: Final = "v4.channel.k8s.io"
_CLOSE: Final = 255
_CONNECT_SECONDS: Final = 30.0
_PING_SECONDS: Final = 25.0  # proxies cut connections that are silent for longer, often after a minute
_UNAUTHORIZED: Final = 401
_SWITCHING: Final = 101
_CLOSE_SECONDS: Final = 2.0
_MOST_ERROR: Final = 1 << 16


class PodSocket:
    """An open connection. `protocol` is the one that the server chose."""

    def __init__(self, server: str, session: aiohttp.ClientSession, opened: aiohttp.ClientWebSocketResponse) -> None:
        self._server = server
        self._session = session
        self._socket = opened
        self.protocol = opened.protocol or V4
        self.is_cut = False  # it ended without a word of the other side
        self._pings = asyncio.create_task(self._ping())

    @property
    def says_ends(self) -> bool:
        """Whether the end of a stream can be sent."""
        return self.protocol == V5

    @classmethod
    async def open(
        cls, access: Access, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str] = (V5, V4)
    ) -> Self:
        """Raises ApiError with what the server answered, UnreachableError."""
        credentials = access.credentials
        auth = credentials.current() or await credentials.renew()
        try:
            return await cls._open(access, f"{path}?{urlencode(params)}", protocols, auth)
        except ApiError as error:
            if error.status != _UNAUTHORIZED or not credentials.refused(auth):
                raise
        renewed = credentials.current() or await credentials.renew()
        return await cls._open(access, f"{path}?{urlencode(params)}", protocols, renewed)

    @classmethod
    async def _open(cls, access: Access, target: str, protocols: Sequence[str], auth: Headers) -> Self:
        session = aiohttp.ClientSession(
            headers={"User-Agent": f"pumice/{VERSION}"},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            raise_for_status=_refuse,
            trace_configs=[_no_redirects()],
        )
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                opened = await session.ws_connect(
                    access.server + target,
                    protocols=protocols,
                    headers=header_lines(auth),
                    ssl=access.tls if access.tls is not None else True,
                    server_hostname=access.server_name,
                    proxy=access.proxy,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                )
        except BaseException as error:
            await session.close()
            raise _translated(access.server, error) from error
        connected = opened.get_extra_info("socket")
        if connected is not None:
            # The kernel notices a dead peer on a silent connection.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cls(access.server, session, opened)

    async def send(self, stream: int, data: bytes) -> None:
        """Send to one stream. Raises UnreachableError."""
        try:
            await self._socket.send_bytes(bytes((stream,)) + data)
        except (OSError, aiohttp.ClientError, RuntimeError) as error:
            raise UnreachableError(f"{self._server}: the connection to the pod was lost") from error

    async def end(self, stream: int) -> None:
        """Say that nothing more comes in a stream, if the protocol can."""
        if self.says_ends:
            await self.send(_CLOSE, bytes((stream,)))

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next part of a stream; None at the end of the connection."""
        while True:
            message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY:
                if message.data:
                    return message.data[0], message.data[1:]
            elif message.type is aiohttp.WSMsgType.TEXT:
                if message.data:
                    text = message.data.encode()
                    return text[0], text[1:]
            elif message.type in _ENDS:
                self.is_cut = message.type is not aiohttp.WSMsgType.CLOSE
                return None

    async def close(self) -> None:
        self._pings.cancel()
        with suppress(OSError, aiohttp.ClientError, TimeoutError):
            await self._socket.close()
        await self._session.close()

    async def _ping(self) -> None:
        # Without a limit for the answer: while nobody reads the output, the answers are not read either.
        with suppress(OSError, aiohttp.ClientError, RuntimeError):
            while True:
                await asyncio.sleep(_PING_SECONDS)
                await self._socket.ping()


_ENDS: Final = frozenset(
    (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
)


async def _refuse(response: aiohttp.ClientResponse) -> None:
    """Raise what the server answered, instead of an error without its text."""
    if response.status == _SWITCHING:
        return
    body = b""
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_CONNECT_SECONDS):
            body = await response.content.read(_MOST_ERROR)
    error = ApiError.from_response(response.status, body, response.headers.get("Retry-After"))
    response.close()
    raise error


def _no_redirects() -> aiohttp.TraceConfig:
    """An API server sends nobody elsewhere. What answers so may want what is typed into the pod (CVE-2020-8559)."""
    config = aiohttp.TraceConfig()

    async def refuse(_session: object, _context: object, answer: aiohttp.TraceRequestRedirectParams) -> None:
        raise UnreachableError(f"{answer.url.origin()}: it redirects to another address, which is not followed")

    config.on_request_redirect.append(refuse)
    return config


def _translated(server: str, error: BaseException) -> BaseException:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return unreachable(server, error.certificate_error)
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return UnreachableError(f"{server}: a proxy in between passes on no WebSocket: {error.message}")
    if isinstance(error, OSError | aiohttp.ClientError | TimeoutError):
        return unreachable(server, error)
    return error
