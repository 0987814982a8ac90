"""The proxy on loopback: the protocols it serves, and the hosts it refuses."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pumice.engines.local.network import proxy as proxy_module
from pumice.engines.local.network.proxy import Permits, Proxy, outside
from pumice.engines.local.network.relay import Server, Stream
from tests.async_tests import async_test


async def _echo_head(client: Stream) -> None:
    head = await client.reader.readuntil(b"\r\n\r\n")
    client.writer.write(b"heard:" + head)
    await client.writer.drain()


@asynccontextmanager
async def _proxied(permits: Permits) -> AsyncIterator[tuple[Stream, int]]:
    """Yield a connection to a proxy, and the port of a server behind it."""
    listener, behind = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    proxy, server = Proxy(listener, permits), Server(behind, _echo_head)
    await proxy.start()
    await server.start()
    client = Stream(*await asyncio.open_connection(*listener.getsockname()))
    try:
        yield client, behind.getsockname()[1]
    finally:
        client.writer.close()
        await proxy.close()
        await server.close()


def _everywhere(_address: str) -> bool:
    return True


async def _converse(permits: Permits, request: str) -> str:
    async with _proxied(permits) as (client, port):
        client.writer.write(request.replace("PORT", str(port)).replace("\n", "\r\n").encode())
        answer = await client.reader.read()
        return answer.decode().replace("\r\n", "\n").replace(str(port), "PORT")


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        pytest.param(
            "CONNECT 127.0.0.1:PORT HTTP/1.1\nHost: x\n\nhello\n\n",
            "HTTP/1.1 200 Connection established\n\nheard:hello\n\n",
            id="connect",
        ),
        pytest.param(
            "GET http://127.0.0.1:PORT/a?b=c HTTP/1.1\nHost: 127.0.0.1\nProxy-Connection: keep-alive\n"
            "Connection: keep-alive\nAccept: */*\n\n",
            "heard:GET /a?b=c HTTP/1.1\nHost: 127.0.0.1\nAccept: */*\nConnection: close\n\n",
            id="plain",
        ),
    ],
)
@async_test
async def test_http(request_: str, answer: str) -> None:
    assert await _converse(_everywhere, request_) == answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param("CONNECT 127.0.0.1:PORT HTTP/1.1\n\n", "403", id="loopback"),
        pytest.param("CONNECT localhost:PORT HTTP/1.1\n\n", "403", id="loopback by name"),
        pytest.param("GET http://[::1]:PORT/ HTTP/1.1\n\n", "403", id="IPv6 loopback"),
        pytest.param("CONNECT 0.0.0.0:PORT HTTP/1.1\n\n", "403", id="unspecified"),
        pytest.param("GET / HTTP/1.1\nHost: here\n\n", "400", id="no proxy request"),
        pytest.param("GET https://example.org/ HTTP/1.1\n\n", "400", id="https without connect"),
        pytest.param("CONNECT example.org HTTP/1.1\n\n", "400", id="no port"),
        pytest.param("CONNECT a:b HTTP/1.1\n\n", "400", id="bad port"),
        pytest.param("nonsense\n\n", "400", id="nonsense"),
    ],
)
@async_test
async def test_refused_http(request_: str, status: str) -> None:
    assert (await _converse(outside, request_)).startswith(f"HTTP/1.1 {status} ")


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        pytest.param(f"CONNECT {'a' * 70}.test:80 HTTP/1.1\n\n", "HTTP/1.1 502 ", id="name too long"),
        pytest.param("CONNECT 127.0.0.1:99999 HTTP/1.1\n\n", "HTTP/1.1 400 ", id="port too large"),
        pytest.param(f"GET http://a/{'a' * 100_000} HTTP/1.1\n\n", "", id="too long"),
    ],
)
@async_test
async def test_a_bad_request_is_not_logged(request_: str, answer: str, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets an answer or is disconnected."""
    try:
        response = await _converse(_everywhere, request_)
    except ConnectionError:
        response = ""
    assert response.startswith(answer)
    assert bool(response) == bool(answer)
    gc.collect()
    assert caplog.records == []


@async_test
async def test_connection_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        answer = await _converse(_everywhere, f"CONNECT 127.0.0.1:{port} HTTP/1.1\n\n")
    assert answer.startswith("HTTP/1.1 502 ")


@pytest.mark.parametrize(
    ("permits", "command", "address", "code"),
    [
        pytest.param(_everywhere, 1, b"\x01\x7f\x00\x00\x01", 0, id="address"),
        pytest.param(_everywhere, 1, b"\x03\x09127.0.0.1", 0, id="name"),
        pytest.param(outside, 1, b"\x01\x7f\x00\x00\x01", 2, id="loopback"),
        pytest.param(outside, 1, b"\x04" + bytes(15) + b"\x01", 2, id="IPv6 loopback"),
        pytest.param(_everywhere, 2, b"\x01\x7f\x00\x00\x01", 7, id="bind"),
    ],
)
@async_test
async def test_socks(permits: Permits, command: int, address: bytes, code: int) -> None:
    async with _proxied(permits) as (client, port):
        client.writer.write(b"\x05\x01\x00")
        assert await client.reader.readexactly(2) == b"\x05\x00"
        client.writer.write(bytes((5, command, 0)) + address + port.to_bytes(2, "big"))
        assert (await client.reader.readexactly(10))[:2] == bytes((5, code))
        if code == 0:
            client.writer.write(b"hello\r\n\r\n")
        assert await client.reader.read() == (b"heard:hello\r\n\r\n" if code == 0 else b"")


@pytest.mark.parametrize(
    ("address", "answer"),
    [
        ("127.0.0.1", False),
        ("127.9.9.9", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("0.0.0.0", False),
        ("192.0.2.7", True),
        ("fe80::1%eth0", False),
    ],
)
def test_outside(address: str, answer: bool) -> None:
    assert outside(address) is answer


@async_test
async def test_connections_above_the_limits_are_reset_and_idle_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "_MOST_OF_ONE", 2)
    monkeypatch.setattr(proxy_module, "_HEAD", 0.2)
    async with _proxied(_everywhere) as (client, _port):
        peer = client.writer.get_extra_info("peername")
        second, third = [Stream(*await asyncio.open_connection(*peer)) for _ in range(2)]
        with pytest.raises(ConnectionResetError):
            await third.reader.read()
        # Those that say nothing make room for others.
        assert [await silent.reader.read() for silent in (client, second)] == [b"", b""]
        fourth = Stream(*await asyncio.open_connection(*peer))
        fourth.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await fourth.reader.readline()).startswith(b"HTTP/1.1 400 ")
        for stream in (second, third, fourth):
            stream.writer.close()


@async_test
async def test_an_idle_relay_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "_IDLE", 0.1)
    async with _proxied(_everywhere) as (client, port):
        client.writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        with pytest.raises(ConnectionResetError):
            await client.reader.read()
