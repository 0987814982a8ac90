from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.api import client as api_client
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.resources import PODS
from tests.unit.engines.kubernetes.played_api import (
    Handler,
    Script,
    call,
    client_of,
    cut,
    event,
    line,
    play,
    played,
    refusing,
    streaming,
)

LINES = [line("ADDED", "a", 1), line("MODIFIED", "b", 2), line("BOOKMARK", "", 3), line("DELETED", "c", 4)]
EVENTS = [("ADDED", "a"), ("MODIFIED", "b"), ("BOOKMARK", ""), ("DELETED", "c")]


async def _watched(client: Client, seen: list[tuple[str, str]]) -> None:
    async with aclosing(client.watch(PODS, "n", resource_version="0")) as changes:
        async for kind, raw in changes:
            seen.append((kind, msgspec.json.decode(raw)["metadata"]["name"]))


def _watch(handler: Handler) -> tuple[list[tuple[str, str]], ApiError | None]:
    """Return the events and the error that ended the watch, if any."""
    seen: list[tuple[str, str]] = []

    async def story() -> ApiError | None:
        async with client_of(handler) as client:
            try:
                await _watched(client, seen)
            except ApiError as error:
                return error
        return None

    return seen, play(story())


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_lines_are_assembled_from_pieces(size: int) -> None:
    stream = b"".join(LINES)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert _watch(streaming(pieces)) == (EVENTS, None)


def test_query_of_a_watch() -> None:
    script = Script(streaming([]))

    async def watched(client: Client) -> list[str]:
        events = client.watch(PODS, "n", resource_version="42", label_selector="k=v", metadata_only=True)
        return [kind async for kind, _ in events]

    assert call(script, watched) == []
    [request] = script.asked
    lifetime = int(request.query["timeoutSeconds"])
    assert 300 <= lifetime <= 600
    assert dict(request.query) == {
        "labelSelector": "k=v",
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "42",
        "timeoutSeconds": str(lifetime),
    }
    assert request.headers["Accept"] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def test_lifetimes_differ() -> None:
    script = Script(*[streaming([])] * 100)

    async def watched(client: Client) -> None:
        for _ in range(100):
            assert [kind async for kind, _ in client.watch(PODS, "n", resource_version="0")] == []

    call(script, watched)
    assert len({request.query["timeoutSeconds"] for request in script.asked}) > 30


def test_a_large_object() -> None:
    large = line("ADDED", "large", 1, data="x" * 5_000_000)
    assert _watch(streaming([large, *LINES])) == ([("ADDED", "large"), *EVENTS], None)


def test_a_truncated_line_is_ignored() -> None:
    assert _watch(streaming([LINES[0], LINES[1][:-20]])) == ([EVENTS[0]], None)


def test_a_broken_connection_raises() -> None:
    async def breaking(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(LINES[0] + LINES[1][:10])
        await asyncio.sleep(0.05)
        return await cut(request)

    seen, error = _watch(breaking)
    assert seen == [EVENTS[0]]
    assert isinstance(error, UnreachableError)


def test_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "_MAX_SILENCE", 0.3)
    seen, error = _watch(streaming(LINES, hold=True))
    assert seen == EVENTS
    assert isinstance(error, UnreachableError)
    assert "in time" in str(error)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}, 410, id="expired"),
        pytest.param({"kind": "Status", "code": 500, "message": "etcd"}, 500, id="internal"),
        pytest.param({"message": "no code"}, 500, id="no code"),
        pytest.param("nonsense", 500, id="no status"),
    ],
)
def test_an_error_event_raises(content: object, status: int) -> None:
    seen, error = _watch(streaming([LINES[0], event("ERROR", content), LINES[1]]))
    assert seen == [EVENTS[0]]
    assert error is not None
    assert error.status == status


@pytest.mark.parametrize(("code", "reason"), [(410, "Expired"), (403, "Forbidden"), (429, "TooManyRequests")])
def test_a_refused_watch_raises(code: int, reason: str) -> None:
    seen, error = _watch(refusing(code, reason, retry_after="2"))
    assert seen == []
    assert error is not None
    assert (error.status, error.reason, error.retry_after) == (code, reason, 2.0)


@pytest.mark.parametrize("junk", [b"<html>\n", b"{}\n", b'{"type": 5}\n', b"\xff\n"])
def test_an_invalid_line_raises(junk: bytes) -> None:
    seen, error = _watch(streaming([LINES[0], junk]))
    assert seen == [EVENTS[0]]
    assert isinstance(error, UnreachableError)


@played
async def test_closing_a_watch_closes_its_connection() -> None:
    left = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(LINES[0])
        transport = request.transport
        assert transport is not None
        while not transport.is_closing():  # noqa: ASYNC110 - a transport has no event for it
            await asyncio.sleep(0.01)
        left.set()
        return response

    async with client_of(handler) as client:
        async with aclosing(client.watch(PODS, "n", resource_version="0")) as changes:
            async for _ in changes:
                break
        await left.wait()


def test_many_lines_in_one_piece() -> None:
    seen, _ = _watch(streaming([b"".join(LINES) * 500]))
    assert seen == EVENTS * 500
