"""Connections: reused, expired, closed by the server, and opened through a proxy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import uvloop
from aiohttp import web

from pumice.engines.kubernetes.api import transport as transport_module
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.discovery import discover
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.resources import PODS
from pumice.engines.kubernetes.auth.credentials import StaticCredentials, bearer
from pumice.engines.kubernetes.auth.tls import tls_context
from tests.cluster.pki import make_pki
from tests.patience import PATIENCE
from tests.unit.engines.kubernetes.auth.test_tls import server_side
from tests.unit.engines.kubernetes.played_api import (
    access_to,
    call,
    client_of,
    good,
    line,
    play,
    played,
    serving,
    streaming,
)

NOW = dt.datetime.now(dt.UTC)  # noqa: TID251 - TLS knows no other time
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[Client]:
    """Yield a client of a server that sends exactly these bytes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    async with (
        await asyncio.start_server(handler, "127.0.0.1", 0) as server,
        Client(access_to(server.sockets[0].getsockname()[1]), timeout=10.0) as client,
    ):
        yield client


async def _asked(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@played
async def test_a_read_on_a_closing_connection_is_repeated() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await _asked(reader)
        writer.write(ANSWER)
        # The second request is read, and the connection closed without a response.
        with contextlib.suppress(asyncio.IncompleteReadError):
            await _asked(reader)

    async with talking(talk) as client:
        for _ in range(3):
            assert await client.get(PODS, "n", "p") == b"{}"
    assert connections == 3


@played
async def test_a_write_on_a_closing_connection_is_not_repeated() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _asked(reader)
        writer.write(ANSWER)
        with contextlib.suppress(asyncio.IncompleteReadError):
            await _asked(reader)

    async with talking(talk) as client:
        await client.get(PODS, "n", "p")
        with pytest.raises(UnreachableError):
            await client.delete(PODS, "n", "p")
        await client.delete(PODS, "n", "p")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", id="connection: close"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n{}", id="no length"),
    ],
)
@played
async def test_the_server_closes_the_connection_after_its_response(answer: bytes) -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await _asked(reader)
        writer.write(answer)

    async with talking(talk) as client:
        for _ in range(3):
            assert await client.create(PODS, "n", b"{}") == b"{}"
    assert connections == 3


@pytest.mark.parametrize(
    "said",
    [pytest.param(b"SSH-2.0-x\r\n\r\n\r\n", id="another protocol"), pytest.param(b"", id="nothing")],
)
@played
async def test_a_server_that_does_not_speak_http(said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _asked(reader)
        writer.write(said)

    with pytest.raises(UnreachableError, match="cannot be reached"):
        async with talking(talk) as client:
            await client.get(PODS, "n", "p")


def test_an_html_page_is_no_response() -> None:
    async def page(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="<!doctype html><title>Log in</title>", content_type="text/html")

    with pytest.raises(UnreachableError, match="answered with an HTML page"):
        call(page, discover)


@played
async def test_an_idle_connection_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        connections.add(request.transport.get_extra_info("peername"))
        return await good(request)

    async with client_of(handler) as client:
        await client.get(PODS, "n", "p")
        await client.get(PODS, "n", "p")
        assert len(connections) == 1
        monkeypatch.setattr(transport_module, "_MAX_IDLE", 0.0)
        await client.get(PODS, "n", "p")
        assert len(connections) == 2
        assert len(client._transport._connections) <= 1


@played
async def test_the_extra_connections_of_a_burst_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, all_there = 0, asyncio.Event()

    async def together(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        if arrived == 10:
            all_there.set()
        await all_there.wait()
        return await good(request)

    async with client_of(together) as client:
        await asyncio.gather(*(client.get(PODS, "n", "p") for _ in range(10)))
        transport = client._transport
        assert len(transport._idle) == 10
        for connection in list(transport._idle)[:9]:
            connection.idle_since -= 100.0
        await client.get(PODS, "n", "p")
        assert len(transport._idle) == 1
        while len(transport._connections) > 1:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0.01)


@played
async def test_a_connection_that_breaks_between_reads() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _asked(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + line("ADDED", "a", 1))
        await writer.drain()

    async with talking(talk) as client:
        changes = client.watch(PODS, "n", resource_version="0")
        await anext(changes)
        [connection] = client._transport._connections
        await connection.closed
        with pytest.raises(UnreachableError, match="in the middle of the response"):
            await anext(changes)


@played
async def test_a_truncated_error_response_of_a_watch() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _asked(reader)
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()

    with pytest.raises(UnreachableError):
        async with talking(talk) as client:
            await anext(client.watch(PODS, "n", resource_version="0"))


@played
async def test_closing_the_client_ends_a_watch() -> None:
    async with client_of(streaming([line("ADDED", "a", 1)], hold=True)) as client:
        seen = asyncio.Event()

        async def watch() -> None:
            async for _ in client.watch(PODS, "n", resource_version="0"):
                seen.set()

        watching = asyncio.ensure_future(watch())
        await seen.wait()
        await client.close()
        with pytest.raises(UnreachableError):
            await watching
        assert client._transport._connections == set()


def test_an_unread_stream_pauses_the_server() -> None:
    written = 0

    async def flooding(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(400):
            await response.write(line("ADDED", f"p{number}", number, data="x" * 100_000))
            written = number
        return response

    async def story() -> int:
        async with client_of(flooding) as client:
            changes = client.watch(PODS, "n", resource_version="0")
            await anext(changes)
            before = -1
            while written != before:
                before = written
                await asyncio.sleep(0.2)
            # Only what the buffers of both sides hold, not all 40 megabytes.
            assert written < 350
            rest = 1
            async for _ in changes:
                rest += 1
            return rest

    assert play(story()) == 400


@played
async def test_a_token_with_a_line_break_is_not_sent() -> None:
    with pytest.raises(UnreachableError, match="the credentials cannot be sent: the value of Authorization"):
        async with client_of(good, credentials=StaticCredentials(bearer("a\r\nX-Evil: 1"))) as client:
            await client.get(PODS, "n", "p")


@contextlib.asynccontextmanager
async def proxy(said: list[bytes], answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> AsyncIterator[int]:
    """A proxy that tunnels to any port and records the requests."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.append(await _asked(reader))
        writer.write(answer)
        if b" 200 " in answer:
            port = int(said[-1].split(b" ")[1].rpartition(b":")[2])
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        writer.close()

    async with await asyncio.start_server(handler, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_through_a_proxy(new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path) -> None:
    pki, said = make_pki(tmp_path, NOW), list[bytes]()
    tls = tls_context(Path(pki.path("ca.crt")).read_bytes())

    async def story() -> int:
        async with serving(good, server_side(pki)) as port, proxy(said) as proxy_port:
            access = msgspec.structs.replace(access_to(port, tls=tls), proxy=f"http://me:s%20t@127.0.0.1:{proxy_port}")
            async with asyncio.timeout(PATIENCE), Client(access) as client:
                for _ in range(3):
                    assert b"Pod" in await client.get(PODS, "n", "p")
            return port

    with asyncio.Runner(loop_factory=new_loop) as runner:
        port = runner.run(story())
    secret = base64.b64encode(b"me:s t")
    assert said == [
        b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nProxy-Authorization: Basic %b\r\n\r\n"
        % (port, port, secret)
    ]


@played
async def test_a_proxy_that_refuses_to_connect() -> None:
    async with proxy([], b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n") as port:
        access = msgspec.structs.replace(access_to(1, tls=tls_context(None)), proxy=f"http://127.0.0.1:{port}")
        async with Client(access) as client:
            with pytest.raises(UnreachableError, match=r"the proxy 127.0.0.1:\d+ answered 407"):
                await client.get(PODS, "n", "p")


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_requests_and_watches_on_uvloop(secure: bool, tmp_path: Path) -> None:
    pki = make_pki(tmp_path, NOW)
    tls = tls_context(Path(pki.path("ca.crt")).read_bytes()) if secure else None

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            return await streaming([line("ADDED", "a", 1, data="x" * 3_000_000)] * 3)(request)
        return await good(request)

    async def story() -> None:
        async with serving(handler, server_side(pki) if secure else None) as port, asyncio.timeout(PATIENCE):
            async with Client(access_to(port, tls=tls), parallel_writes=8) as client:
                await asyncio.gather(*(client.create(PODS, "n", b"{}") for _ in range(50)))
                assert len([0 async for _ in client.watch(PODS, "n", resource_version="0")]) == 3
            with pytest.raises(ApiError):
                async with Client(access_to(1, tls=tls)) as client:
                    await client.get(PODS, "n", "p")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())
