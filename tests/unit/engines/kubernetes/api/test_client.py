from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import PARALLEL_READS, Client
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.resources import CRDS, JOBS, LEASES, PODS
from pumice.engines.kubernetes.auth.credentials import Fixed, bearer
from tests.unit.engines.kubernetes.played_api import Handler, Script, access_to, client_of, cut, good, play, refusing

Call = Callable[[Client], Awaitable[bytes]]
PLACE = "/api/v1/namespaces/a/pods"


@pytest.mark.parametrize(
    ("call", "asked", "content_type", "body"),
    [
        pytest.param(lambda client: client.get(PODS, "a", "p"), f"GET {PLACE}/p", "application/json", None, id="get"),
        pytest.param(
            lambda client: client.get(PODS, "a", "p", subresource="log"),
            f"GET {PLACE}/p/log",
            "application/json",
            None,
            id="get a subresource",
        ),
        pytest.param(
            lambda client: client.create(PODS, "a", b"{}"),
            f"POST {PLACE}?fieldManager=pumice",
            "application/json",
            {},
            id="create",
        ),
        pytest.param(
            lambda client: client.create(PODS, "a", b"{}", dry_run=True),
            f"POST {PLACE}?fieldManager=pumice&dryRun=All",
            "application/json",
            {},
            id="create for trial",
        ),
        pytest.param(
            lambda client: client.create(PODS, "a", b"{}", name="p", subresource="binding"),
            f"POST {PLACE}/p/binding?fieldManager=pumice",
            "application/json",
            {},
            id="create of an object",
        ),
        pytest.param(
            lambda client: client.create(CRDS, None, b"{}"),
            "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldManager=pumice",
            "application/json",
            {},
            id="create without namespace",
        ),
        pytest.param(
            lambda client: client.replace(PODS, "a", "p", b"{}", subresource="status"),
            f"PUT {PLACE}/p/status?fieldManager=pumice",
            "application/json",
            {},
            id="replace",
        ),
        pytest.param(
            lambda client: client.merge_patch(PODS, "a", "p", b"{}", subresource="status"),
            f"PATCH {PLACE}/p/status?fieldManager=pumice",
            "application/merge-patch+json",
            {},
            id="merge patch",
        ),
        pytest.param(
            lambda client: client.apply(PODS, "a", "p", b"{}"),
            f"PATCH {PLACE}/p?fieldManager=pumice&force=true",
            "application/apply-patch+yaml",
            {},
            id="apply",
        ),
        pytest.param(
            lambda client: client.delete(PODS, "a", "p"), f"DELETE {PLACE}/p", "application/json", None, id="delete"
        ),
        pytest.param(
            lambda client: client.delete(PODS, "a", "p", uid="u", grace=0, propagation="Background"),
            f"DELETE {PLACE}/p",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u"},
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Background",
            },
            id="delete with options",
        ),
        pytest.param(
            lambda client: client.delete(PODS, "a", "p", uid="u", resource_version="7"),
            f"DELETE {PLACE}/p",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u", "resourceVersion": "7"},
            },
            id="delete one version",
        ),
    ],
)
def test_what_is_asked(call: Call, asked: str, content_type: str, body: object) -> None:
    script = Script(good)

    async def story() -> bytes:
        async with client_of(script) as client:
            return await call(client)

    assert json.loads(play(story()))["kind"] == "Pod"
    [request] = script.asked
    assert f"{request.method} {request.raw_path}" == asked
    assert request.headers["Content-Type"] == content_type
    assert request.headers["User-Agent"] == f"pumice/{version('pumice')}"
    assert "Accept-Encoding" not in request.headers
    assert (json.loads(script.bodies[0]) if script.bodies[0] else None) == body


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda client: client.delete(PODS, "a", ""), id="delete without name"),
        pytest.param(lambda client: client.delete(PODS, "", "p"), id="delete without namespace"),
        pytest.param(lambda client: client.delete(PODS, None, "p"), id="delete in no namespace"),
        pytest.param(lambda client: client.get(JOBS, "a", ""), id="get without name"),
        pytest.param(lambda client: client.create(PODS, None, b"{}"), id="create in no namespace"),
        pytest.param(lambda client: client.merge_patch(PODS, "a", "", b"{}"), id="patch without name"),
    ],
)
def test_what_would_reach_the_whole_collection_is_not_asked(call: Call) -> None:
    script = Script(good)

    async def story() -> None:
        async with client_of(script) as client:
            with pytest.raises(ValueError, match="without a name"):
                await call(client)

    play(story())
    assert script.asked == []


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(refusing(429, "TooManyRequests"), id="429"),
        pytest.param(refusing(500, "InternalError"), id="500"),
        pytest.param(refusing(503, "ServiceUnavailable"), id="503"),
        pytest.param(refusing(504, "Timeout"), id="504"),
        pytest.param(cut, id="cut"),
    ],
)
def test_what_will_pass_is_never_given_up(trouble: Handler) -> None:
    script = Script(*[trouble] * 12, good)

    async def story() -> bytes:
        async with client_of(script) as client:
            return await client.create(PODS, "a", b'{"a": 1}', attempts=None)

    assert json.loads(play(story()))["kind"] == "Pod"
    assert script.bodies == [b'{"a": 1}'] * 13


@pytest.mark.parametrize(("attempts", "asked"), [pytest.param(1, 1, id="once"), pytest.param(3, 3, id="thrice")])
def test_as_many_attempts_as_wanted(attempts: int, asked: int) -> None:
    script = Script(refusing(503, "ServiceUnavailable"))

    async def story() -> None:
        async with client_of(script) as client:
            await client.create(PODS, "a", b"{}", attempts=attempts)

    with pytest.raises(ApiError, match="said ServiceUnavailable") as caught:
        play(story())
    assert (caught.value.status, len(script.asked)) == (503, asked)


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
def test_a_refusal_for_good_is_told_at_once(code: int, reason: str) -> None:
    script = Script(refusing(code, reason))

    async def story() -> None:
        async with client_of(script) as client:
            await client.create(PODS, "a", b"{}", attempts=None)

    with pytest.raises(ApiError) as caught:
        play(story())
    assert (caught.value.status, caught.value.reason, len(script.asked)) == (code, reason, 1)


def test_the_server_says_how_long_to_wait() -> None:
    script = Script(refusing(429, "TooManyRequests", retry_after="1"), good)

    async def story() -> float:
        async with client_of(script) as client:
            began = time.monotonic()
            await client.get(PODS, "a", "p", attempts=None)
            return time.monotonic() - began

    assert play(story()) >= 1.0


def test_a_repeated_create_that_had_been_carried_out_already_exists() -> None:
    made = False

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal made
        if made:
            return await refusing(409, "AlreadyExists")(request)
        made = True
        return await cut(request)

    async def story() -> None:
        async with client_of(handler) as client:
            await client.create(PODS, "a", b"{}", attempts=None)

    with pytest.raises(ApiError) as caught:
        play(story())
    assert caught.value.already_exists


def test_nobody_there() -> None:
    async def story() -> None:
        async with Client(access_to(1)) as client:
            await client.get(PODS, "a", "p")

    with pytest.raises(UnreachableError, match=r"^http://127\.0\.0\.1:1 cannot be reached: "):
        play(story())


def test_no_answer_in_time() -> None:
    async def sleeping(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    async def story() -> None:
        async with client_of(sleeping, timeout=0.2) as client:
            await client.get(PODS, "a", "p")

    with pytest.raises(UnreachableError, match="did not answer in time"):
        play(story())


def test_an_answer_cut_off_in_the_middle_is_no_answer() -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind": "P')
        return await cut(request)

    async def story() -> None:
        async with client_of(half) as client:
            await client.create(PODS, "a", b"{}")

    with pytest.raises(UnreachableError):
        play(story())


def test_a_redirect_is_not_followed_with_our_token() -> None:
    async def elsewhere(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    script = Script(elsewhere)

    async def story() -> None:
        async with client_of(script, credentials=Fixed(bearer("t"))) as client:
            await client.get(PODS, "a", "p")

    with pytest.raises(ApiError) as caught:
        play(story())
    assert (caught.value.status, len(script.asked)) == (302, 1)


def test_large_bodies_are_sent_whole() -> None:
    script = Script(good)
    body = json.dumps({"data": "x" * 1_400_000}).encode()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return await script(request.clone(client_max_size=2**24))

    async def story() -> None:
        async with client_of(handler) as client:
            await client.create(PODS, "a", body)

    play(story())
    assert script.bodies == [body]


def test_connections_are_used_again_after_good_and_bad_answers() -> None:
    connections = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        connections.add(request.transport.get_extra_info("peername"))
        return await (good if len(connections) % 2 else refusing(404, "NotFound"))(request)

    async def story() -> None:
        async with client_of(handler, parallel_writes=4) as client:
            for _ in range(5):
                results = await asyncio.gather(
                    *(client.create(PODS, "a", b"{}") for _ in range(10)), return_exceptions=True
                )
                assert all(isinstance(result, bytes | ApiError) for result in results)

    play(story())
    assert 1 <= len(connections) <= 4


def test_writes_are_bounded_and_hold_up_neither_reads_nor_what_is_urgent() -> None:
    release, full = asyncio.Event(), asyncio.Event()
    writing = most = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal writing, most
        if request.method == "POST":
            writing += 1
            most = max(most, writing)
            if writing == 3:
                full.set()
            await release.wait()
            writing -= 1
        return await good(request)

    async def story() -> None:
        async with client_of(handler, parallel_writes=3) as client:
            writes = [asyncio.ensure_future(client.create(PODS, "a", b"{}")) for _ in range(12)]
            await full.wait()
            await client.get(PODS, "a", "p")
            await client.merge_patch(LEASES, "a", "leader", b"{}", urgent=True)
            assert client.writes.running == 3
            release.set()
            await asyncio.gather(*writes)

    play(story())
    assert most == 3


def test_reads_are_bounded_and_hold_up_neither_writes_nor_what_is_urgent() -> None:
    release, full = asyncio.Event(), asyncio.Event()
    reading = most = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal reading, most
        if request.method == "GET" and request.path.endswith("/pods/p"):
            reading += 1
            most = max(most, reading)
            if reading == PARALLEL_READS:
                full.set()
            await release.wait()
            reading -= 1
        return await good(request)

    async def story() -> None:
        async with client_of(handler) as client:
            reads = [asyncio.ensure_future(client.get(PODS, "a", "p")) for _ in range(PARALLEL_READS + 20)]
            await full.wait()
            await client.create(PODS, "a", b"{}")
            await client.get(LEASES, "a", "leader", urgent=True)
            release.set()
            await asyncio.gather(*reads)

    play(story())
    assert most == PARALLEL_READS


def test_too_many_requests_narrow_the_way_for_reads_alone() -> None:
    script = Script(refusing(429, "TooManyRequests"), good)

    async def story() -> tuple[int, int]:
        async with client_of(script, parallel_writes=8) as client:
            await client.get(PODS, "a", "p", attempts=None)
            return client.reads.allowed, client.writes.allowed

    assert play(story()) == (PARALLEL_READS // 2, 8)


def test_too_many_requests_narrow_the_way_for_writes() -> None:
    script = Script(refusing(429, "TooManyRequests"), good)

    async def story() -> tuple[int, int]:
        async with client_of(script, parallel_writes=8) as client:
            await client.create(PODS, "a", b"{}", attempts=None)
            narrow = client.writes.allowed
            for _ in range(60):
                await client.create(PODS, "a", b"{}")
            return narrow, client.writes.allowed

    assert play(story()) == (4, 8)


def test_who_gives_up_leaves_the_way_free() -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            await asyncio.sleep(30)
        return await good(request)

    async def story() -> None:
        async with client_of(slow, parallel_writes=2) as client:
            writes = [asyncio.ensure_future(client.create(PODS, "a", b"{}")) for _ in range(5)]
            while len(connections := list(client._transport._connections)) < 2:  # noqa: ASYNC110 - the transport has no event for it
                await asyncio.sleep(0.01)
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)
            assert client.writes.running == 0
            # Their answers may yet come, so nobody else can use their connections.
            await asyncio.wait([connection.closed for connection in connections])
            await client.merge_patch(PODS, "a", "p", b"{}")

    play(story())


def test_closing_twice_and_asking_again_afterwards() -> None:
    script = Script(good)

    async def story() -> None:
        async with client_of(script) as client:
            await client.get(PODS, "a", "p")
            await client.close()
            await client.close()
            await client.get(PODS, "a", "p")

    play(story())
    assert len(script.asked) == 2
