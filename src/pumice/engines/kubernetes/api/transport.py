"""Authenticated requests to the API server over a pool of kept-alive connections.

The headers are encoded once for each combination of token and content types. Every response is read to its end, or the
connection could not be reused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from pumice.engines.kubernetes.api.connection import Connection, connect
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.http1 import Headers, ProtocolError, ResponseReader, encode_headers, encode_request
from pumice.engines.kubernetes.auth.access import Access
from pumice.model import VERSION

JSON: Final = "application/json"
# Servers and proxies close connections that are idle for longer. The client closes them first, or a request might be
# sent on a connection that is being closed.
_MAX_IDLE: Final = 45.0
_CLOSE_TIMEOUT: Final = 5.0

_Send = Callable[[bytes], Awaitable[tuple[Connection, ResponseReader]]]  # takes the encoded headers


def unreachable(server: str, error: Exception) -> UnreachableError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return UnreachableError(
            f"the certificate of {server} is not trusted ({error.verify_message}); "
            "check certificate-authority and tls-server-name of the cluster in the kubeconfig"
        )
    if isinstance(error, TimeoutError):
        return UnreachableError(f"{server} did not answer in time")
    return UnreachableError(f"{server} cannot be reached: {str(error) or type(error).__name__}")


class Transport:
    def __init__(self, access: Access, *, timeout: float) -> None:
        self._access = access
        self._credentials = access.credentials
        self._timeout = timeout
        self._connections: set[Connection] = set()
        self._idle: deque[Connection] = deque()
        url = urlsplit(access.server)
        self._prefix = url.path
        self._common = {"Host": url.netloc, "User-Agent": f"pumice/{VERSION}"}
        # The encoded headers for the current token, by content type and accepted type.
        self._auth: Headers | None = None
        self._headers: dict[tuple[str, str], bytes] = {}

    async def close(self) -> None:
        connections = list(self._connections)
        self._idle.clear()
        for connection in connections:
            connection.close()
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=_CLOSE_TIMEOUT)

    async def request(
        self, method: str, target: str, body: bytes | None = None, content_type: str = JSON, accept: str = JSON
    ) -> bytes:
        """Return the body of a successful response. Raises ApiError. A rejected token is renewed once."""
        connection, response = await self._authenticated(
            content_type, accept, lambda headers: self._send(method, target, body, headers)
        )
        self._release(connection, response)
        content = response.take()
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise ApiError.from_response(response.status, content, response.header("retry-after"))
        if content.startswith(b"<"):
            raise UnreachableError(
                f"{self._access.server} answered with an HTML page, as no API server does; "
                "check the address and the proxies in between"
            )
        return content

    async def open_stream(self, target: str, accept: str = JSON) -> Connection:
        """Return the connection of a successful response, for the caller to read and to close. Raises ApiError."""
        connection, response = await self._authenticated(
            JSON, accept, lambda headers: self._send("GET", target, None, headers, stream=True)
        )
        if response.status == HTTPStatus.OK:
            return connection
        try:
            content = b""
            while piece := await connection.read(self._timeout):
                content += piece
        except (OSError, ProtocolError) as error:
            raise self.unreachable(error) from error
        finally:
            connection.close()
        raise ApiError.from_response(response.status, content, response.header("retry-after"))

    def unreachable(self, error: Exception) -> UnreachableError:
        return unreachable(self._access.server, error)

    async def _authenticated(self, content_type: str, accept: str, send: _Send) -> tuple[Connection, ResponseReader]:
        auth = await self._current_auth()
        connection, response = await send(self._encoded_headers(auth, content_type, accept))
        if response.status == HTTPStatus.UNAUTHORIZED and self._credentials.refused(auth):
            self._release(connection, response)
            connection, response = await send(self._encoded_headers(await self._current_auth(), content_type, accept))
        return connection, response

    async def _current_auth(self) -> Headers:
        auth = self._credentials.current()
        return await self._credentials.renew() if auth is None else auth

    def _encoded_headers(self, auth: Headers, content_type: str, accept: str) -> bytes:
        if auth is not self._auth:
            self._headers.clear()
            self._auth = auth
        headers = self._headers.get((content_type, accept))
        if headers is None:
            try:
                headers = encode_headers({**self._common, **auth, "Accept": accept, "Content-Type": content_type})
            except ProtocolError as error:
                raise UnreachableError(f"the credentials cannot be sent: {error}") from error
            self._headers[content_type, accept] = headers
        return headers

    async def _send(
        self, method: str, target: str, body: bytes | None, headers: bytes, *, stream: bool = False
    ) -> tuple[Connection, ResponseReader]:
        request = encode_request(method, self._prefix + target, headers, body)
        while True:
            connection, is_new = await self._acquire()
            try:
                send = connection.open_stream if stream else connection.request
                return connection, await send(request, self._timeout)
            except (OSError, ProtocolError) as error:
                # The server may close an idle connection in the moment it is used. Only reads are sent again.
                was_closing = not is_new and not connection.responded and not isinstance(error, TimeoutError)
                if method != "GET" or not was_closing:
                    raise self.unreachable(error) from error

    async def _acquire(self) -> tuple[Connection, bool]:
        """Return a connection and whether it is new. The one used last comes first, so that the others expire."""
        generation = self._credentials.generation
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.alive and connection.generation == generation and now - connection.idle_since < _MAX_IDLE:
                return connection, False
            connection.close()
        try:
            connection = await connect(self._access)
        except (OSError, ProtocolError) as error:
            raise self.unreachable(error) from error
        connection.generation = generation
        self._connections.add(connection)
        connection.closed.add_done_callback(lambda _: self._connections.discard(connection))
        return connection, True

    def _release(self, connection: Connection, response: ResponseReader) -> None:
        if not response.keeps_connection:
            connection.close()
            return
        connection.idle_since = now = asyncio.get_running_loop().time()
        self._idle.append(connection)
        while now - self._idle[0].idle_since > _MAX_IDLE:
            self._idle.popleft().close()
