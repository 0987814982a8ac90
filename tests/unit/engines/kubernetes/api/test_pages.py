from __future__ import annotations

import json

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.resources import PODS
from tests.unit.engines.kubernetes.played_api import Handler, Script, call, refusing


def _page(names: list[str], more: str = "") -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        metadata = {"resourceVersion": "77"} | ({"continue": more} if more else {})
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": [{"name": name} for name in names]})

    return handler


def _listed(script: Script, **how: str) -> list[tuple[list[str], str]]:
    async def pages(client: Client) -> list[tuple[list[str], str]]:
        listed = client.list_pages(PODS, "a", attempts=None, label_selector=how.get("labels", ""))
        return [([msgspec.json.decode(item)["name"] for item in items], version) async for items, version in listed]

    return call(script, pages)


def test_pages_follow_the_continue_token() -> None:
    script = Script(_page(["a", "b"], more="x/+="), _page(["c", "d"], more="y"), _page(["e"]))
    assert _listed(script, labels="k in (v,w)") == [(["a", "b"], "77"), (["c", "d"], "77"), (["e"], "77")]
    queries = [dict(request.query) for request in script.asked]
    common = {"labelSelector": "k in (v,w)", "limit": "500"}
    assert queries == [common, common | {"continue": "x/+="}, common | {"continue": "y"}]


def test_a_failed_page_is_retried() -> None:
    script = Script(_page(["a"], more="x"), refusing(503, "ServiceUnavailable"), _page(["b"]))
    assert _listed(script) == [(["a"], "77"), (["b"], "77")]


def test_an_empty_list() -> None:
    async def empty(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": None})

    assert _listed(Script(empty)) == [([], "5")]


def test_an_expired_continue_token_raises() -> None:
    with pytest.raises(ApiError) as caught:
        _listed(Script(_page(["a"], more="x"), refusing(410, "Expired")))
    assert caught.value.gone


@pytest.mark.parametrize("body", [pytest.param(b"{", id="no JSON"), pytest.param(b"[]", id="no list")])
def test_a_response_that_is_no_list_raises(body: bytes) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body)

    with pytest.raises(UnreachableError, match="the response is not a list of objects"):
        _listed(Script(handler))


def test_items_are_not_decoded() -> None:
    strange = {"apiVersion": "v1", "metadata": {"labels": {"x": "\u2028"}}, "spec": {"n": 10**30}}

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": [strange]})

    async def first(client: Client) -> bytes:
        [items] = [items async for items, _ in client.list_pages(PODS, metadata_only=True)]
        return bytes(items[0])

    assert json.loads(call(handler, first)) == strange
