"""One request to the API server and its whole answer, over connections that are kept open.

What is the same for every request is made once: the headers of a token, the address, the timeouts. The body of every
answer is read to its end, or the connection could not be used again.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Final

import aiohttp
from yarl import URL

from pumice.engines.kubernetes.access import Access
from pumice.engines.kubernetes.errors import ApiError, UnreachableError

JSON: Final = "application/json"

# The server closes connections that were idle for longer; ours must go first, or a request may meet a closing door.
_IDLE = 60.0
# Beyond the writes: watches stay open for minutes, and lists come in between.
_READERS = 128
# A session whose certificate has been replaced is closed when the watches that it serves have come to their end.
_FAREWELL = 900.0
# aiohttp warns of larger bodies given as bytes, and takes them in pieces from a file.
_LARGE = 1 << 20


class Transport:
    def __init__(self, access: Access, *, writers: int, timeout: float) -> None:
        self._access = access
        self._credentials = access.credentials
        self._connections = writers + _READERS
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, 10.0))
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._sent: Mapping[str, str] | None = None
        self._generation = -1

    async def close(self) -> None:
        sessions = [*self._retired, *([self._session] if self._session is not None else [])]
        self._session, self._retired, self._sent = None, [], None
        for session in sessions:
            await session.close()

    async def exchange(
        self, method: str, url: URL, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Send, and return the body of a good answer. Raises ApiError."""
        try:
            response = await self.open(method, url, body, headers)
            answer = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self.unreachable(error) from error
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise ApiError.from_answer(response.status, answer, response.headers.get("Retry-After"))
        return answer

    async def open(
        self,
        method: str,
        url: URL,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 - aiohttp's own, of three different waits
    ) -> aiohttp.ClientResponse:
        """The answer, its body not read yet. A refused token is replaced once, if another one can be had."""
        data = io.BytesIO(body) if body is not None and len(body) >= _LARGE else body
        for last in (False, True):
            sent = self._credentials.current()
            if sent is None:
                sent = await self._credentials.renew()
            session = self._session_for(sent)
            response = await session.request(
                method,
                url,
                data=data,
                headers=headers,
                allow_redirects=False,
                timeout=timeout or self._timeout,
                server_hostname=self._access.server_name,
            )
            if response.status != HTTPStatus.UNAUTHORIZED or last or not self._credentials.refused(sent):
                break
            await response.read()
        return response

    def _session_for(self, sent: Mapping[str, str]) -> aiohttp.ClientSession:
        session = self._session
        if session is None or self._generation != self._credentials.generation:
            session = self._new_session()
            self._sent = None
        if sent is not self._sent:
            # Part of every request from here on, without being put together for each.
            session.headers.pop("Authorization", None)
            session.headers.update(sent)
            self._sent = sent
        return session

    def _new_session(self) -> aiohttp.ClientSession:
        if self._session is not None:
            retired = self._session
            self._retired.append(retired)
            asyncio.get_running_loop().call_later(_FAREWELL, self._say_farewell, retired)
        self._generation = self._credentials.generation
        tls: ssl.SSLContext | bool = self._access.tls if self._access.tls is not None else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=_IDLE, ssl=tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"pumice/{version('pumice')}", "Accept": JSON, "Content-Type": JSON},
            # Compressing costs the server and us more time than a cluster's network takes to carry the bytes.
            skip_auto_headers=("Accept-Encoding",),
            auto_decompress=False,
            trust_env=False,
            proxy=self._access.proxy,
            timeout=self._timeout,
        )
        return self._session

    def _say_farewell(self, session: aiohttp.ClientSession) -> None:
        if session in self._retired:
            self._retired.remove(session)
            self._closing = asyncio.ensure_future(session.close())

    def unreachable(self, error: Exception) -> UnreachableError:
        if isinstance(error, UnreachableError):
            return error
        server = self._access.server
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return UnreachableError(
                f"the certificate of {server} is not trusted ({error.certificate_error}); "
                "check certificate-authority and tls-server-name of the cluster in the kubeconfig"
            )
        if isinstance(error, TimeoutError):
            return UnreachableError(f"{server} did not answer in time")
        return UnreachableError(f"{server} cannot be reached: {str(error) or type(error).__name__}")
