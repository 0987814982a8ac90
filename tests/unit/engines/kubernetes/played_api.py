"""A fake API server: real HTTP on loopback, responses scripted by the test."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, ParamSpec, TypeVar

from aiohttp import web

from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.auth.access import Access
from pumice.engines.kubernetes.auth.credentials import Credentials, StaticCredentials
from tests.patience import PATIENCE

# A test that takes longer hangs.
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
R = TypeVar("R")
P = ParamSpec("P")


def play(story: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine with a time limit."""

    async def bounded() -> R:
        async with asyncio.timeout(PATIENCE):
            return await story

    return asyncio.run(bounded())


def played(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test with a time limit."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        play(test(*arguments, **named))

    return run


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Yield the port at which the handler answers every request."""
    server = web.Server(handler, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def access_to(port: int, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None) -> Access:
    scheme = "http" if tls is None else "https"
    return Access(f"{scheme}://127.0.0.1:{port}", "default", tls, credentials or StaticCredentials(), "played")


@contextlib.asynccontextmanager
async def client_of(
    handler: Handler,
    *,
    credentials: Credentials | None = None,
    parallel_writes: int = 64,
    timeout: float = 30.0,  # noqa: ASYNC109 - of each request
) -> AsyncIterator[Client]:
    """Yield a client of this server that hardly waits between attempts."""
    async with (
        serving(handler) as port,
        Client(access_to(port, credentials), parallel_writes=parallel_writes, timeout=timeout) as client,
    ):
        client._new_backoff = hasty  # type: ignore[assignment]  # a function serves as a factory
        yield client


def call(handler: Handler, request: Callable[[Client], Awaitable[R]], *, timeout: float = 30.0) -> R:
    """Make one call to a server with this handler."""

    async def story() -> R:
        async with client_of(handler, timeout=timeout) as client:
            return await request(client)

    return play(story())


def hasty() -> Backoff:
    return Backoff(first=0.001, longest=0.01)


async def good(request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "Pod", "metadata": {"name": "p"}})


def refusing(code: int, reason: str = "", retry_after: str | None = None) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
        headers = {"Retry-After": retry_after} if retry_after is not None else {}
        return web.json_response(body | {"message": f"said {reason}"}, status=code, headers=headers)

    return handler


class Script:
    """Responses for each request in turn, the last one repeated. Records requests and bodies."""

    def __init__(self, *answers: Handler) -> None:
        self.asked: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self._answers = list(answers)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        return await answer(request)


def line(kind: str, name: str, version: int, **more: Any) -> bytes:
    metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "resourceVersion": str(version)}
    return event(kind, {"metadata": metadata} | more)


def event(kind: str, content: Any) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


def streaming(pieces: Iterable[bytes], *, hold: bool = False) -> Handler:
    """A watch that sends these pieces one by one, then ends or stays open and silent."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        if hold:
            await asyncio.sleep(PATIENCE)
        return response

    return handler


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    raise asyncio.CancelledError
