from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import LARGE_BODIES, PARALLEL_READS, Client
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.resources import CRDS, JOBS, LEASES, PODS
from tests.unit.engines.kubernetes.played_api import (
    Handler,
    Script,
    access_to,
    call,
    client_of,
    cut,
    good,
    play,
    played,
    refusing,
)

Call = Callable[[Client], Awaitable[bytes]]
PATH = "/api/v1/namespaces/a/pods"
CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}
REQUESTS: dict[str, tuple[Call, str, object]] = {
    "get": (lambda client: client.get(PODS, "a", "p"), f"GET {PATH}/p", None),
    "create": (lambda client: client.create(PODS, "a", b"{}"), f"POST {PATH}?fieldManager=pumice", {}),
    "dry run": (
        lambda client: client.create(PODS, "a", b"{}", dry_run=True),
        f"POST {PATH}?fieldManager=pumice&dryRun=All",
        {},
    ),
    "cluster-scoped": (
        lambda client: client.create(CRDS, None, b"{}"),
        f"POST {CRDS_PATH}?fieldManager=pumice",
        {},
    ),
    "replace": (lambda client: client.replace(PODS, "a", "p", b"{}"), f"PUT {PATH}/p?fieldManager=pumice", {}),
    "merge patch": (
        lambda client: client.merge_patch(PODS, "a", "p", b"{}", subresource="status"),
        f"PATCH {PATH}/p/status?fieldManager=pumice",
        {},
    ),
    "apply": (
        lambda client: client.apply(PODS, "a", "p", b"{}"),
        f"PATCH {PATH}/p?fieldManager=pumice&force=true",
        {},
    ),
    "delete": (lambda client: client.delete(PODS, "a", "p"), f"DELETE {PATH}/p", None),
    "delete with options": (
        lambda client: client.delete(PODS, "a", "p", uid="u", propagation="Background"),
        f"DELETE {PATH}/p",
        OPTIONS | {"preconditions": {"uid": "u"}, "propagationPolicy": "Background"},
    ),
    "delete one version": (
        lambda client: client.delete(PODS, "a", "p", uid="u", resource_version="7"),
        f"DELETE {PATH}/p",
        OPTIONS | {"preconditions": {"uid": "u", "resourceVersion": "7"}},
    ),
}
CONTENT_TYPES = {"merge patch": "application/merge-patch+json", "apply": "application/apply-patch+yaml"}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(name: str) -> None:
    make, expected, body = REQUESTS[name]
    script = Script(good)
    assert json.loads(call(script, make))["kind"] == "Pod"
    [request] = script.asked
    assert f"{request.method} {request.raw_path}" == expected
    assert request.headers["Content-Type"] == CONTENT_TYPES.get(name, "application/json")
    assert request.headers["User-Agent"] == f"pumice/{version('pumice')}"
    assert "Accept-Encoding" not in request.headers
    assert (json.loads(script.bodies[0]) if script.bodies[0] else None) == body


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda client: client.delete(PODS, "a", ""), id="delete without name"),
        pytest.param(lambda client: client.delete(PODS, "", "p"), id="delete without namespace"),
        pytest.param(lambda client: client.delete(PODS, None, "p"), id="delete in no namespace"),
        pytest.param(lambda client: client.get(JOBS, "a", ""), id="get without name"),
        pytest.param(lambda client: client.create(PODS, None, b"{}"), id="create in no namespace"),
        pytest.param(lambda client: client.merge_patch(PODS, "a", "", b"{}"), id="patch without name"),
    ],
)
def test_a_request_without_name_or_namespace_is_not_sent(make: Call) -> None:
    script = Script(good)
    with pytest.raises(ValueError, match="without a name"):
        call(script, make)
    assert script.asked == []


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(refusing(429, "TooManyRequests"), id="429"),
        pytest.param(refusing(500, "InternalError"), id="500"),
        pytest.param(refusing(503, "ServiceUnavailable"), id="503"),
        pytest.param(refusing(504, "Timeout"), id="504"),
        pytest.param(cut, id="cut"),
    ],
)
def test_transient_errors_are_retried(failure: Handler) -> None:
    script = Script(*[failure] * 12, good)
    assert b"Pod" in call(script, lambda client: client.create(PODS, "a", b'{"a": 1}', attempts=None))
    assert script.bodies == [b'{"a": 1}'] * 13


@pytest.mark.parametrize("attempts", [1, 3])
def test_attempts_are_bounded(attempts: int) -> None:
    script = Script(refusing(503, "ServiceUnavailable"))
    with pytest.raises(ApiError, match="said ServiceUnavailable") as caught:
        call(script, lambda client: client.create(PODS, "a", b"{}", attempts=attempts))
    assert (caught.value.status, len(script.asked)) == (503, attempts)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (400, "BadRequest"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (409, "AlreadyExists"),
        (422, "Invalid"),
    ],
)
def test_permanent_errors_are_not_retried(code: int, reason: str) -> None:
    script = Script(refusing(code, reason))
    with pytest.raises(ApiError) as caught:
        call(script, lambda client: client.create(PODS, "a", b"{}", attempts=None))
    assert (caught.value.status, caught.value.reason, len(script.asked)) == (code, reason, 1)


def test_retry_after_is_obeyed() -> None:
    script, began = Script(refusing(429, "TooManyRequests", retry_after="1"), good), time.monotonic()
    call(script, lambda client: client.get(PODS, "a", "p", attempts=None))
    assert time.monotonic() - began >= 1.0


def test_a_repeated_create_that_was_carried_out_already_exists() -> None:
    with pytest.raises(ApiError) as caught:
        call(
            Script(cut, refusing(409, "AlreadyExists")),
            lambda client: client.create(PODS, "a", b"{}", attempts=None),
        )
    assert caught.value.already_exists


@played
async def test_a_closed_port() -> None:
    with pytest.raises(UnreachableError, match=r"^http://127\.0\.0\.1:1 cannot be reached: "):
        async with Client(access_to(1)) as client:
            await client.get(PODS, "a", "p")


def test_a_response_that_takes_too_long() -> None:
    async def sleeping(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    with pytest.raises(UnreachableError, match="did not answer in time"):
        call(sleeping, lambda client: client.get(PODS, "a", "p"), timeout=0.2)


def test_a_truncated_response() -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind": "P')
        return await cut(request)

    with pytest.raises(UnreachableError):
        call(half, lambda client: client.create(PODS, "a", b"{}"))


def test_a_redirect_is_not_followed() -> None:
    async def elsewhere(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    script = Script(elsewhere)
    with pytest.raises(ApiError) as caught:
        call(script, lambda client: client.get(PODS, "a", "p"))
    assert (caught.value.status, len(script.asked)) == (302, 1)


def test_large_bodies_are_sent_whole() -> None:
    script = Script(good)
    body = json.dumps({"data": "x" * 1_400_000}).encode()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return await script(request.clone(client_max_size=2**24))

    call(handler, lambda client: client.create(PODS, "a", body))
    assert script.bodies == [body]


@played
async def test_connections_are_reused_after_successes_and_errors() -> None:
    connections = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        connections.add(request.transport.get_extra_info("peername"))
        return await (good if len(connections) % 2 else refusing(404, "NotFound"))(request)

    async with client_of(handler, parallel_writes=4) as client:
        for _ in range(5):
            results = await asyncio.gather(
                *(client.create(PODS, "a", b"{}") for _ in range(10)), return_exceptions=True
            )
            assert all(isinstance(result, bytes | ApiError) for result in results)
    assert 1 <= len(connections) <= 4


@pytest.mark.parametrize(("method", "limit"), [("POST", 3), ("GET", PARALLEL_READS)], ids=["writes", "reads"])
@played
async def test_requests_are_bounded_and_delay_neither_the_other_kind_nor_urgent_ones(method: str, limit: int) -> None:
    release, full = asyncio.Event(), asyncio.Event()
    running = most = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal running, most
        if request.method == method and "/pods" in request.path:
            running += 1
            most = max(most, running)
            if running == limit:
                full.set()
            await release.wait()
            running -= 1
        return await good(request)

    def read_or_write(client: Client, *, write: bool) -> Awaitable[bytes]:
        return client.create(PODS, "a", b"{}") if write else client.get(PODS, "a", "p")

    async with client_of(handler, parallel_writes=3) as client:
        requests = [asyncio.ensure_future(read_or_write(client, write=method == "POST")) for _ in range(limit + 20)]
        await full.wait()
        await read_or_write(client, write=method != "POST")
        await client.get(LEASES, "a", "leader", urgent=True)
        await client.replace(LEASES, "a", "leader", b"{}", urgent=True)
        release.set()
        await asyncio.gather(*requests)
    assert most == limit


@played
async def test_large_objects_are_written_one_by_one_and_delay_no_small_ones() -> None:
    """A server that works on many large pods or Jobs at once answers no other call."""
    body = b'"' + b"x" * (LARGE_BODIES * 2 // 3) + b'"'
    release, busy = asyncio.Event(), asyncio.Event()
    running = most = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal running, most
        if len(await request.read()) == len(body) or request.method == "PATCH":
            running += 1
            most = max(most, running)
            busy.set()
            await release.wait()
            running -= 1
        return await good(request)

    async with client_of(handler, parallel_writes=4) as client:
        large = [asyncio.ensure_future(client.create(PODS, "a", body)) for _ in range(4)]
        large += [asyncio.ensure_future(client.merge_patch(JOBS, "a", "j", b"{}", size=len(body))) for _ in range(4)]
        await busy.wait()
        await asyncio.gather(*(client.create(PODS, "a", b"{}") for _ in range(20)))
        release.set()
        await asyncio.gather(*large)
        assert client.large_bodies.running == 0
    assert most == 1


def test_a_throttled_read_lowers_the_limit_of_reads_alone() -> None:
    async def limits(client: Client) -> tuple[int, int]:
        await client.get(PODS, "a", "p", attempts=None)
        return client.reads.allowed, client.writes.allowed

    assert call(Script(refusing(429, "TooManyRequests"), good), limits) == (PARALLEL_READS // 2, 64)


def test_a_throttled_write_lowers_the_limit_of_writes() -> None:
    async def story() -> tuple[int, int]:
        async with client_of(Script(refusing(429, "TooManyRequests"), good), parallel_writes=8) as client:
            await client.create(PODS, "a", b"{}", attempts=None)
            lowered = client.writes.allowed
            for _ in range(60):
                await client.create(PODS, "a", b"{}")
            return lowered, client.writes.allowed

    assert play(story()) == (4, 8)


@played
async def test_a_cancelled_write_frees_its_slot() -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            await asyncio.sleep(30)
        return await good(request)

    async with client_of(slow, parallel_writes=2) as client:
        writes = [asyncio.ensure_future(client.create(PODS, "a", b"{}")) for _ in range(5)]
        while len(connections := list(client._transport._connections)) < 2:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0.01)
        for write in writes:
            write.cancel()
        await asyncio.gather(*writes, return_exceptions=True)
        assert client.writes.running == 0
        # Their responses may still arrive, so their connections cannot be reused.
        await asyncio.wait([connection.closed for connection in connections])
        await client.merge_patch(PODS, "a", "p", b"{}")


def test_a_client_can_be_closed_twice_and_used_again() -> None:
    async def story(client: Client) -> None:
        await client.get(PODS, "a", "p")
        await client.close()
        await client.close()
        await client.get(PODS, "a", "p")

    script = Script(good)
    call(script, story)
    assert len(script.asked) == 2
