"""The fault proxy fails exactly as requested."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.api import Api, RefusedError, path_of
from tests.cluster.async_api import AsyncApi
from tests.cluster.cluster import Cluster
from tests.cluster.fault_proxy import KINDS, Call, FaultProxy, Faults


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(cluster) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy: FaultProxy) -> Iterator[Api]:
    api = Api(proxy.server, "admin-token", None)
    yield api
    api.close()


def _create(api: Api, namespace: str, name: str) -> None:
    api.create("ConfigMap", namespace, {"metadata": {"name": name}})


def test_calls_are_forwarded_and_counted(proxy: FaultProxy, proxied: Api, namespace: str) -> None:
    _create(proxied, namespace, "a")
    assert proxied.list("ConfigMap", namespace)
    path = path_of("ConfigMap", namespace)
    assert proxy.calls == [Call(1, "POST", path), Call(2, "GET", path)]
    assert proxy.writes == [Call(1, "POST", path)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("conflict", (409, False), id="conflict"),
        pytest.param("throttled", (429, False), id="throttled"),
        pytest.param("error", (500, False), id="error"),
        pytest.param("slow", (None, True), id="slow"),
        pytest.param("cut before", (0, False), id="cut before"),
        pytest.param("cut after", (0, True), id="cut after"),
    ],
)
def test_each_failure(
    proxy: FaultProxy, proxied: Api, namespace: str, kind: str, expected: tuple[object, bool]
) -> None:
    """Each failure has its status, and the server has carried out the call or not."""
    proxy.faults = Faults(rate=1, kinds=(kind,))
    seen: int | None = None
    try:
        _create(proxied, namespace, "a")
    except RefusedError as error:
        seen = error.status
    except (OSError, http.client.HTTPException):
        seen = 0
    assert proxy.injected[kind] >= 1
    proxy.faults = None
    assert (seen, proxied.find("ConfigMap", namespace, "a") is not None) == expected


def test_the_same_seed_injects_the_same_failures(proxy: FaultProxy) -> None:
    def drawn() -> list[str]:
        proxy.faults = Faults(rate=0.5, seed=7)
        return [proxy._fault(Call(number, "PATCH", "/x")) for number in range(100)]

    first = drawn()
    assert drawn() == first
    assert set(first) == {*KINDS, ""}


def test_a_call_without_a_response(proxy: FaultProxy, proxied: Api, api: Api, namespace: str) -> None:
    proxy.after = lambda call: call.number < 2
    _create(proxied, namespace, "a")
    with pytest.raises((OSError, http.client.HTTPException)):
        _create(Api(proxy.server, "admin-token", None), namespace, "b")
    assert api.find("ConfigMap", namespace, "b") is not None


async def _names(proxy: FaultProxy, namespace: str, found: list[str]) -> None:
    async with AsyncApi(proxy.server, "admin-token", None) as client:
        async for _, item in client.follow(path_of("ConfigMap", namespace)):
            found.append(item["metadata"]["name"])


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - another thread makes it true
        await asyncio.sleep(0.01)


def test_watches_can_be_cut(proxy: FaultProxy, api: Api, namespace: str) -> None:
    async def scenario() -> None:
        found: list[str] = []
        following = asyncio.create_task(_names(proxy, namespace, found))
        await _until(lambda: proxy.open_watches == 1)
        _create(api, namespace, "a")
        await _until(lambda: "a" in found)
        assert proxy.cut_watches() == 1
        _create(api, namespace, "b")
        await _until(lambda: "b" in found)
        await _until(lambda: proxy.open_watches == 1)
        following.cancel()
        await asyncio.wait([following])

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert proxy.watches >= 2
