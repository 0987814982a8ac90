"""Clients that hold connections open cost little, and do not keep out the API server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable

import pytest

from pumice.engines.kubernetes.install.webhook_configurations import VALIDATE
from pumice.engines.kubernetes.webhook import server
from pumice.engines.kubernetes.webhook.server import WebhookServer
from pumice.runtime import http_server
from tests.builders import a_document
from tests.unit.engines.kubernetes.played_api import played
from tests.unit.engines.kubernetes.webhook.test_reviews import body
from tests.unit.engines.kubernetes.webhook.test_server import Caller, running

REVIEW = body(a_document())
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HostileCaller(Caller):
    """Opens connections and leaves them open until the end of the test."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller.port, caller.credentials)
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes = b"") -> Streams:
        tls = ssl.create_default_context(cadata=self.credentials.authority.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        self._writers.append(writer)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def attacked() -> AsyncIterator[tuple[WebhookServer, HostileCaller]]:
    async with running() as (webhook, caller):
        hostile = HostileCaller(caller)
        try:
            yield webhook, hostile
        finally:
            hostile.close()


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What the server sends until it closes the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0)


def post(length: int, sent: bytes = b"") -> bytes:
    return f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + sent


@played
async def test_a_head_that_does_not_arrive_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.1)
    async with attacked() as (_, caller):
        for sent in (b"", b"POST /validate HTTP/1.1\r\nHost:"):
            reader, _writer = await caller.connect(sent)
            assert await closed(reader) == b""


@played
async def test_a_body_that_does_not_arrive_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.1)
    async with attacked() as (_, caller):
        reader, _writer = await caller.connect(post(1000, b"{"))
        assert (await closed(reader)).startswith(b"HTTP/1.1 408 ")


@played
async def test_a_broken_connection_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with attacked() as (webhook, caller):
        _reader, writer = await caller.connect(post(1000, b"{"))
        await until(lambda: bool(webhook._bodies))
        writer.transport.abort()
        await until(lambda: not webhook._bodies)
        assert (await caller.ask("POST", VALIDATE, REVIEW))[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@played
async def test_the_oldest_connection_without_a_request_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 3)
    async with attacked() as (_, caller):
        used, used_writer = await caller.connect(post(len(REVIEW), REVIEW))
        assert await used.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        idle = [await caller.connect() for _ in range(2)]
        assert (await caller.ask("POST", VALIDATE, REVIEW))[0] == 200
        assert await closed(idle[0][0]) == b""
        used_writer.write(post(len(REVIEW), REVIEW))
        while b"HTTP/1.1 200" not in await used.readuntil(b"\r\n"):
            pass


@played
async def test_slow_bodies_make_room_before_a_connection_with_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 3)
    async with attacked() as (webhook, caller):
        used, used_writer = await caller.connect(post(len(REVIEW), REVIEW))
        assert await used.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        slow = [await caller.connect(post(1000, b"{")) for _ in range(2)]
        await until(lambda: len(webhook._bodies) == len(slow))
        await caller.connect()
        assert await closed(slow[0][0]) == b""
        used_writer.write(post(len(REVIEW), REVIEW))
        while b"HTTP/1.1 200" not in await used.readuntil(b"\r\n"):
            pass


@played
async def test_idle_connections_with_an_answer_leave_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 4)
    async with attacked() as (_, caller):
        idle = [await caller.connect(post(len(REVIEW), REVIEW)) for _ in range(4)]
        for reader, _writer in idle:
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        new, new_writer = await caller.connect()
        await caller.connect()
        new_writer.write(post(len(REVIEW), REVIEW))
        assert await new.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"


@played
async def test_without_idle_connections_the_least_recently_used_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 1)
    async with attacked() as (_, caller):
        used, _writer = await caller.connect(post(len(REVIEW), REVIEW))
        await used.readuntil(b"\r\n")
        assert (await caller.ask("POST", VALIDATE, REVIEW))[0] == 200
        assert await closed(used)


@played
async def test_bodies_are_bounded_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_BYTES", 200_000)
    async with attacked() as (webhook, caller):
        first, _ = await caller.connect(post(1_000_000, b"x" * 150_000))
        await until(lambda: sum(map(len, webhook._bodies.values())) >= 100_000)
        _second, _ = await caller.connect(post(1_000_000, b"x" * 150_000))
        assert await closed(first) == b""
        assert (await caller.ask("POST", VALIDATE, REVIEW))[0] == 200


@played
async def test_too_many_reviews_are_refused_before_their_bodies_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_PENDING", 1)
    async with attacked() as (webhook, caller):
        _first, _writer = await caller.connect(post(1000))
        await until(lambda: webhook._pending > 0)
        reader, _ = await caller.connect(post(1000))
        assert (await closed(reader)).startswith(b"HTTP/1.1 503 ")
