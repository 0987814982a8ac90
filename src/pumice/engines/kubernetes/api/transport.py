"""Requests to the API server over connections that are kept open, as whoever the credentials say.

What is the same for every request is made once: the head, but for its first line and its length. The body of every
answer is read to its end, or the connection could not be used again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Final
from urllib.parse import urlsplit

from pumice.engines.kubernetes.api.connection import Connection
from pumice.engines.kubernetes.api.dialer import dial
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.http1 import AnswerReader, ProtocolError, encoded_fields, encoded_request
from pumice.engines.kubernetes.auth.access import Access

JSON: Final = "application/json"
# Servers and what stands before them close connections that are idle for longer; ours must go first, or a request may
# meet a closing door.
_IDLE: Final = 45.0
_FAREWELL: Final = 5.0


class Transport:
    def __init__(self, access: Access, *, timeout: float) -> None:
        self._access = access
        self._credentials = access.credentials
        self._timeout = timeout
        self._connections: set[Connection] = set()
        self._idle: deque[Connection] = deque()
        place = urlsplit(access.server)
        self._prefix = place.path
        self._common = {"Host": place.netloc, "User-Agent": f"pumice/{version('pumice')}"}
        # The heads for the present token, by the type of what is sent and of what is wanted.
        self._sent: Mapping[str, str] | None = None
        self._heads: dict[tuple[str, str], bytes] = {}

    async def close(self) -> None:
        connections = list(self._connections)
        self._idle.clear()
        for connection in connections:
            connection.close()
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=_FAREWELL)

    async def exchange(
        self, method: str, target: str, body: bytes | None = None, content_type: str = JSON, accept: str = JSON
    ) -> bytes:
        """Send, and return the body of a good answer. Raises ApiError. A refused token is replaced once."""
        sent = await self._who()
        answer = await self._exchange(method, target, body, self._head(sent, content_type, accept))
        if answer.status == HTTPStatus.UNAUTHORIZED and self._credentials.refused(sent):
            sent = await self._who()
            answer = await self._exchange(method, target, body, self._head(sent, content_type, accept))
        content = answer.take()
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise ApiError.from_answer(answer.status, content, answer.field("retry-after"))
        if content.startswith(b"<"):
            # Whoever reads the answer as an object would fail at it.
            raise UnreachableError(
                f"{self._access.server} answered with a page for people, as no API server does; "
                "check the address, and what stands in between"
            )
        return content

    async def stream(self, target: str, accept: str = JSON) -> Connection:
        """The connection on which a good answer has begun, to be read by `more` and closed by the caller."""
        sent = await self._who()
        connection, answer = await self._begin(target, self._head(sent, JSON, accept))
        if answer.status == HTTPStatus.UNAUTHORIZED and self._credentials.refused(sent):
            connection.close()
            sent = await self._who()
            connection, answer = await self._begin(target, self._head(sent, JSON, accept))
        if answer.status == HTTPStatus.OK:
            return connection
        try:
            content = b""
            while piece := await connection.more(self._timeout):
                content += piece
        except (OSError, ProtocolError) as error:
            raise self.unreachable(error) from error
        finally:
            connection.close()
        raise ApiError.from_answer(answer.status, content, answer.field("retry-after"))

    def unreachable(self, error: Exception) -> UnreachableError:
        server = self._access.server
        if isinstance(error, ssl.SSLCertVerificationError):
            return UnreachableError(
                f"the certificate of {server} is not trusted ({error.verify_message}); "
                "check certificate-authority and tls-server-name of the cluster in the kubeconfig"
            )
        if isinstance(error, TimeoutError):
            return UnreachableError(f"{server} did not answer in time")
        return UnreachableError(f"{server} cannot be reached: {str(error) or type(error).__name__}")

    async def _who(self) -> Mapping[str, str]:
        sent = self._credentials.current()
        return await self._credentials.renew() if sent is None else sent

    def _head(self, sent: Mapping[str, str], content_type: str, accept: str) -> bytes:
        if sent is not self._sent:
            self._heads.clear()
            self._sent = sent
        head = self._heads.get((content_type, accept))
        if head is None:
            try:
                head = encoded_fields({**self._common, **sent, "Accept": accept, "Content-Type": content_type})
            except ProtocolError as error:
                raise UnreachableError(f"the credentials cannot be sent: {error}") from error
            self._heads[content_type, accept] = head
        return head

    async def _exchange(self, method: str, target: str, body: bytes | None, head: bytes) -> AnswerReader:
        request = encoded_request(method, self._prefix + target, head, body)
        while True:
            connection, is_new = await self._acquire()
            try:
                answer = await connection.ask(request, self._timeout)
            except (OSError, ProtocolError) as error:
                if not _met_a_closing_door(method, connection, error, is_new=is_new):
                    raise self.unreachable(error) from error
                continue
            self._release(connection, answer)
            return answer

    async def _begin(self, target: str, head: bytes) -> tuple[Connection, AnswerReader]:
        request = encoded_request("GET", self._prefix + target, head, None)
        while True:
            connection, is_new = await self._acquire()
            try:
                return connection, await connection.ask_stream(request, self._timeout)
            except (OSError, ProtocolError) as error:
                if not _met_a_closing_door("GET", connection, error, is_new=is_new):
                    raise self.unreachable(error) from error

    async def _acquire(self) -> tuple[Connection, bool]:
        """A connection, and whether it is new. The one used last is taken first, so that the others can be given up."""
        generation = self._credentials.generation
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.alive and connection.generation == generation and now - connection.idle_since < _IDLE:
                return connection, False
            connection.close()
        try:
            connection = await dial(self._access)
        except (OSError, ProtocolError) as error:
            raise self.unreachable(error) from error
        connection.generation = generation
        self._connections.add(connection)
        connection.closed.add_done_callback(lambda _: self._connections.discard(connection))
        return connection, True

    def _release(self, connection: Connection, answer: AnswerReader) -> None:
        if not answer.keeps_connection:
            connection.close()
            return
        connection.idle_since = now = asyncio.get_running_loop().time()
        self._idle.append(connection)
        while now - self._idle[0].idle_since > _IDLE:
            self._idle.popleft().close()


def _met_a_closing_door(method: str, connection: Connection, error: Exception, *, is_new: bool) -> bool:
    """Whether the server closed an idle connection in the moment it was used. What only reads can be asked again."""
    return method == "GET" and not is_new and not connection.answered and not isinstance(error, TimeoutError)
