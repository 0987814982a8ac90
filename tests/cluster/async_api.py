"""A simple asynchronous client for the simulated parts of the cluster: calls, and a watch that always resumes."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.cluster.api import Object, RefusedError

MERGE = "application/merge-patch+json"
GONE = 410
_PAUSE = 0.2
_LINE = 8 * 1024 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_ENDLESS = aiohttp.ClientTimeout(total=None, sock_connect=10)


class AsyncApi:
    def __init__(self, server: str, token: str, tls: ssl.SSLContext | None) -> None:
        self.server = server
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._tls: ssl.SSLContext | bool = tls if tls is not None else True
        self._session: aiohttp.ClientSession | None = None
        self._pending: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=16, ssl=self._tls)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, read_bufsize=_LINE)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        if self._pending:
            await asyncio.wait(self._pending)
        connector = self._session.connector
        assert isinstance(connector, aiohttp.TCPConnector)
        # Skip the TLS shutdown handshake: the loop may end before the server answers.
        await connector.close(abort_ssl=True)
        await self._session.close()

    async def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """Send a request; it completes even if the caller is cancelled."""
        task = asyncio.create_task(self._call(method, path, body, content_type))
        self._pending.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._pending.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved, in case the caller was cancelled

    async def _call(self, method: str, path: str, body: object, content_type: str) -> Any:
        assert self._session is not None
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        request = self._session.request(method, self.server + path, data=data, headers=headers, timeout=_TIMEOUT)
        async with request as response:
            text = await response.read()
            found = json.loads(text) if text.startswith(b"{") else {"message": text.decode(errors="replace")}
            if response.status >= 300:
                raise RefusedError(response.status, found)
            return found

    async def call_until_done(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Any:
        """Retry server and network errors; return None if the object is gone or was changed by another client."""
        while True:
            try:
                return await self.call(method, path, body, content_type)
            except RefusedError as error:
                if error.status in {404, 409} or _is_another(error):
                    return None
                if error.status != 429 and error.status < 500:
                    raise
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            await asyncio.sleep(_PAUSE)

    async def follow(self, path: str) -> AsyncIterator[tuple[str, Object]]:
        """Yield existing objects as ADDED, then all changes; objects that vanish between two watches are DELETED."""
        known: dict[str, Object] = {}
        while True:
            try:
                async for kind, item in self._list_and_watch(path, known):
                    yield kind, item
            except (aiohttp.ClientError, TimeoutError, OSError, RefusedError, json.JSONDecodeError):
                await asyncio.sleep(_PAUSE)

    async def _list_and_watch(self, path: str, known: dict[str, Object]) -> AsyncIterator[tuple[str, Object]]:
        listed = await self.call("GET", path)
        now = {item["metadata"]["uid"]: item for item in listed.get("items") or []}
        for uid in known.keys() - now.keys():
            yield "DELETED", known.pop(uid)
        for uid, item in now.items():
            known[uid] = item
            yield "ADDED", item
        version = listed["metadata"]["resourceVersion"]
        while True:
            async for kind, item in self._watch(path, version):
                if kind == "ERROR":
                    if item.get("code") == GONE:
                        return
                    raise RefusedError(int(item.get("code") or 500), item)
                version = item["metadata"]["resourceVersion"]
                if kind == "BOOKMARK":
                    continue
                if kind == "DELETED":
                    known.pop(item["metadata"]["uid"], None)
                else:
                    known[item["metadata"]["uid"]] = item
                yield kind, item

    async def _watch(self, path: str, version: str) -> AsyncIterator[tuple[str, Object]]:
        assert self._session is not None
        url = f"{self.server}{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}"
        async with self._session.get(url, timeout=_ENDLESS) as response:
            if response.status >= 300:
                raise RefusedError(response.status, {"message": await response.text()})
            try:
                async for line in response.content:
                    event = json.loads(line)
                    yield event["type"], event["object"]
            finally:
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()


def _is_another(error: RefusedError) -> bool:
    """Whether a patch with a uid hit a newer object of the same name."""
    causes = (error.body.get("details") or {}).get("causes") or []
    return any(cause.get("field") == "metadata.uid" for cause in causes)
