from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.raw_objects import elements, members
from pumice.engines.kubernetes.api.resources import PODS
from pumice.engines.kubernetes.cache.decode_pods import CachedObject, decode_object
from pumice.engines.kubernetes.cache.informer import Informer
from tests.unit.engines.kubernetes.played_api import Script, client_of, hasty, line, played, streaming

# An API server refuses what is deeper than 10,000 levels.
DEEP = b'{"a":[' * 4_900 + b"1" + b"]}" * 4_900


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'{"a":1,"b":[2,3]}', {"a": b"1", "b": b"[2,3]"}, id="plain"),
        pytest.param(b' { "a" : { "b" : 1 } , "c" : "x" } \n', {"a": b'{ "b" : 1 }', "c": b'"x"'}, id="spaced"),
        pytest.param(rb'{"}":"{[\",:","\u0061":null}', {"}": rb'"{[\",:"', "a": b"null"}, id="brackets in strings"),
        pytest.param(b'{"a":' + DEEP + b',"b":2}', {"a": DEEP, "b": b"2"}, id="deep"),
        pytest.param(b"{}", {}, id="empty"),
        pytest.param(b"[1]", {}, id="no object"),
        pytest.param(b"", {}, id="nothing"),
    ],
)
def test_members(text: bytes, expected: dict[str, bytes]) -> None:
    assert {name: bytes(value).strip() for name, value in members(text).items()} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'[1, {"a":[2,3]},"x,]" ]', [b"1", b'{"a":[2,3]}', b'"x,]"'], id="plain"),
        pytest.param(b"[" + DEEP + b"," + DEEP + b"]", [DEEP, DEEP], id="deep"),
        pytest.param(b"[ ]", [], id="empty"),
        pytest.param(b"null", [], id="no array"),
    ],
)
def test_elements(text: bytes, expected: list[bytes]) -> None:
    assert [bytes(element) for element in elements(text)] == expected


def _is_decoded(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except RecursionError:
        return False
    return True


@played
async def test_a_deep_object_does_not_stop_the_informer(caplog: pytest.LogCaptureFixture) -> None:
    """Neither in a list nor in a watch; the log names it, even if its metadata are as deep as the rest.

    Python 3.11 does not decode it; 3.13 and later do.
    """

    def item(name: str, version: int, spec: bytes) -> bytes:
        managed = b'"managedFields":[{"fieldsV1":%b}]' % spec
        identity = b'"name":"%b","namespace":"n","uid":"u-%b"' % (name.encode(), name.encode())
        return b'{"metadata":{%b,%b,"resourceVersion":"%d"},"spec":%b}' % (managed, identity, version, spec)

    async def listed(_request: web.BaseRequest) -> web.StreamResponse:
        items = b",".join([item("a", 1, b"{}"), item("deep", 2, DEEP), item("b", 3, b"{}")])
        return web.Response(body=b'{"metadata":{"resourceVersion":"3"},"items":[%b]}' % items)

    deep = b'{"type":"ADDED","object":%b}\n' % item("later", 4, DEEP)
    watched = streaming([deep, line("ADDED", "c", 5), deep.replace(b"ADDED", b"DELETED")])
    names: list[str] = []
    is_decoded = _is_decoded(deep)

    def changed(_before: CachedObject | None, after: CachedObject | None) -> None:
        names.append(after.name if after is not None else "-")

    def decode(raw: msgspec.Raw) -> CachedObject:
        msgspec.json.decode(raw)
        return decode_object(raw)

    with caplog.at_level(logging.WARNING):
        script = Script(listed, watched, streaming([], hold=True))
        async with client_of(script) as client:
            informer = Informer(client, PODS, decode=decode, changed=changed)
            informer._backoff = hasty()
            running = asyncio.ensure_future(informer.run())
            while len(script.asked) < 3 and not running.done():  # noqa: ASYNC110 - whichever comes first
                await asyncio.sleep(0.002)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
    assert names == (["a", "deep", "b", "later", "c", "-"] if is_decoded else ["a", "b", "c"])
    logged = [message for record in caplog.records if (message := record.getMessage()).startswith("cannot decode")]
    refused = [] if is_decoded else ["cannot decode pods n/deep", "cannot decode pods n/later"]
    assert [message.partition(": ")[0] for message in logged] == refused
