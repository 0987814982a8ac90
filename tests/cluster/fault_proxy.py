"""A proxy between a client and the API server that counts calls and injects failures.

By default it only counts. `faults` makes a share of the calls fail as servers and networks fail, reproducibly from a
seed. `after` is called after the server carried out a call and before the client gets the response: the moment to kill
a controller. A client gets a complete response or a closed connection, never a part.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from yarl import URL

from tests.cluster.background_thread import BackgroundThread
from tests.cluster.cluster import Cluster

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Responses that the proxy sends itself, without calling the server.
STATUSES = {"conflict": (409, "Conflict"), "throttled": (429, "TooManyRequests"), "error": (500, "InternalError")}
KINDS = (*STATUSES, "slow", "cut before", "cut after")
_HOP = frozenset({"connection", "host", "transfer-encoding", "keep-alive", "content-length"})


@dataclass(frozen=True, slots=True)
class Call:
    number: int  # from 1, over everything but watches and /readyz
    method: str
    path: str
    query: str = ""

    @property
    def is_write(self) -> bool:
        return self.method in WRITES

    @property
    def is_watch(self) -> bool:
        return self.number == 0

    def __str__(self) -> str:
        return f"{self.number}: {self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Faults:
    """A share `rate` of the calls fails in one of `kinds`, except the `spared` ones, such as those for Leases."""

    rate: float = 0.2
    seed: int = 0
    kinds: tuple[str, ...] = KINDS
    spared: Callable[[Call], bool] = lambda _call: False
    delay: float = 0.3


class FaultProxy(BackgroundThread):
    """`server` is the URL for clients, `calls` are all calls, `injected` counts the failures by kind."""

    def __init__(self, cluster: Cluster, faults: Faults | None = None) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.watches = 0
        self.injected: Counter[str] = Counter()
        self.after: Callable[[Call], bool] = lambda _call: True  # False: close the connection instead of responding
        self._cluster = cluster
        self._port = 0
        self._lock = threading.Lock()
        self.is_down = False  # the server has gone away: connections are cut, new ones too
        self.lost_calls = 0  # so many calls find nobody before the server is back
        self._open_watches: dict[int, web.BaseRequest] = {}
        self._session: aiohttp.ClientSession | None = None
        self.faults = faults

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    @property
    def faults(self) -> Faults | None:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults | None) -> None:
        self._faults = faults
        self._random = random.Random(faults.seed if faults else 0)

    @property
    def server(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.is_write]

    @property
    def open_watches(self) -> int:
        return len(self._open_watches)

    def cut_watches(self) -> int:
        """Close the connections of all watches and return their number."""

        async def cut() -> int:
            watches = list(self._open_watches.values())
            for request in watches:
                _cut(request)
            return len(watches)

        return self.submit(cut())

    def go_down(self) -> None:
        self.is_down = True
        self.cut_watches()

    def come_back(self) -> None:
        self.is_down = False

    async def main(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._cluster.tls)
        runner = web.ServerRunner(web.Server(self._serve, handler_cancellation=True), shutdown_timeout=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        try:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            [address] = runner.addresses
            self._port = address[1]
            self.mark_ready()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()
            await connector.close(abort_ssl=True)
            await self._session.close()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.is_down:
            return _cut(request)
        if self.lost_calls:
            self.lost_calls -= 1
            return _cut(request)
        if "watch" in request.query and request.query["watch"] in {"1", "true"}:
            return await self._watch(request)
        if request.path == "/readyz":
            # The check of the API server for the controller's own /readyz, which changes nothing.
            status, headers, content = await self._forward(request, b"")
            return web.Response(status=status, headers=headers, body=content)
        call = self._count(request)
        fault = self._fault(call)
        if fault in STATUSES:
            return _refusal(*STATUSES[fault])
        body = await request.content.read()  # `read` has a limit
        if fault == "slow":
            await asyncio.sleep(self._faults.delay if self._faults else 0)
        if fault == "cut before":
            return _cut(request)
        status, headers, content = await self._forward(request, body)
        if fault == "cut after" or not self.after(call):
            return _cut(request)
        return web.Response(status=status, headers=headers, body=content)

    def _count(self, request: web.BaseRequest) -> Call:
        with self._lock:
            call = Call(len(self.calls) + 1, request.method, request.path, request.query_string)
            self.calls.append(call)
        return call

    def _fault(self, call: Call) -> str:
        faults = self._faults
        if faults is None or faults.spared(call) or self._random.random() >= faults.rate:
            return ""
        kinds = [kind for kind in faults.kinds if call.is_write or kind != "conflict"]
        kind = self._random.choice(kinds)
        self.injected[kind] += 1
        return kind

    async def _forward(self, request: web.BaseRequest, body: bytes) -> tuple[int, dict[str, str], bytes]:
        assert self._session is not None
        url = f"{self._cluster.server}{request.raw_path}"
        async with self._session.request(
            request.method,
            URL(url, encoded=True),
            data=io.BytesIO(body) if body else None,
            headers=_plain(request.headers),
        ) as response:
            return response.status, _kept(response.headers), await response.read()

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        self.watches += 1
        url = URL(f"{self._cluster.server}{request.raw_path}", encoded=True)
        endless = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, headers=_plain(request.headers), timeout=endless) as upstream:
            answer = web.StreamResponse(status=upstream.status, headers=_kept(upstream.headers))
            await answer.prepare(request)
            self._open_watches[id(request)] = request
            try:
                async for chunk in upstream.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
            finally:
                del self._open_watches[id(request)]
                if upstream.connection is not None and upstream.connection.transport is not None:
                    upstream.connection.transport.abort()
        return answer


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """Ask for no compression, unless the client does: it gets what the server sends."""
    return {"Accept-Encoding": "identity", **_kept(headers)}


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP}


def _refusal(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    status["message"] = f"{reason}: injected by the test"
    headers = {"Retry-After": "1"} if code == STATUSES["throttled"][0] else {}
    return web.Response(status=code, headers=headers, content_type="application/json", body=json.dumps(status).encode())


def _cut(request: web.BaseRequest) -> web.Response:
    """Abort the connection."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
