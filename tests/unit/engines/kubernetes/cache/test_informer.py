from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.api import client as api_client
from pumice.engines.kubernetes.api.resources import PODS
from pumice.engines.kubernetes.cache import informer as informer_module
from pumice.engines.kubernetes.cache.informer import Informer
from tests.unit.engines.kubernetes.played_api import (
    Handler,
    Script,
    client_of,
    cut,
    event,
    hasty,
    play,
    played,
    refusing,
    streaming,
)
from tests.unit.engines.kubernetes.played_store import Failure, PlayedStore, on_list, on_watch, replayed


class Item(NamedTuple):
    namespace: str
    name: str
    uid: str
    resource_version: str
    phase: str


def item_of(document: dict[str, Any]) -> Item:
    metadata, phase = document["metadata"], document.get("phase", "")
    if not isinstance(phase, str):
        raise TypeError("the phase is not text")
    return Item(metadata["namespace"], metadata["name"], metadata["uid"], metadata["resourceVersion"], phase)


def decode(raw: msgspec.Raw) -> Item | None:
    item = item_of(msgspec.json.decode(raw))
    return None if item.phase == "boring" else item


class Watcher:
    """A running informer and its notifications."""

    def __init__(self, informer: Informer[Item]) -> None:
        self.informer = informer
        self.notified: list[tuple[str | None, str | None]] = []

    def held(self) -> dict[str, str]:
        return {name: item.resource_version for (_, name), item in self.informer.store.items.items()}

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - any condition
            await asyncio.sleep(0.002)

    async def agrees_with(self, store: PlayedStore) -> None:
        await self.until(lambda: self.held() == store.held())


@contextlib.asynccontextmanager
async def watching(store: PlayedStore, **how: str) -> AsyncIterator[Watcher]:
    async with client_of(store) as client:
        notified: list[tuple[str | None, str | None]] = []

        def changed(before: Item | None, after: Item | None) -> None:
            notified.append((_shown(before), _shown(after)))
            if after is not None and after.phase == "poison":
                raise RuntimeError("a defect")

        informer = Informer(client, PODS, decode=decode, changed=changed, namespace=how.get("namespace"))
        informer._backoff = hasty()
        watcher = Watcher(informer)
        watcher.notified = notified
        running = asyncio.ensure_future(informer.run())
        try:
            yield watcher
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _shown(item: Item | None) -> str | None:
    return f"{item.uid}@{item.resource_version}" if item is not None else None


def _store(*names: str) -> PlayedStore:
    store = PlayedStore()
    for name in names:
        store.write(name)
    return store


@played
async def test_a_list_and_the_changes_after_it() -> None:
    store = _store("a", "b")
    async with watching(store) as watcher:
        await watcher.informer.synced.wait()
        assert watcher.held() == {"a": "101", "b": "102"}
        store.write("c")
        store.write("a")
        store.delete("b")
        await watcher.agrees_with(store)
        assert watcher.notified == [
            (None, "a-101@101"),
            (None, "b-102@102"),
            (None, "c-103@103"),
            ("a-101@101", "a-101@104"),
            ("b-102@102", None),
        ]
        assert (store.lists, store.watches) == (1, ["102"])


@played
async def test_a_list_of_several_pages() -> None:
    store = _store(*(f"p{number:04}" for number in range(1100)))
    async with watching(store) as watcher:
        await watcher.informer.synced.wait()
        assert watcher.held() == store.held()
        assert store.lists == 3


@played
async def test_a_failed_page_is_retried() -> None:
    store = _store(*(f"p{number:04}" for number in range(1100)))
    for page in (None, "500", "1000"):
        store.failures += [_on_page(page, answer) for answer in (cut, refusing(429), refusing(503))]
    async with watching(store) as watcher:
        await watcher.informer.synced.wait()
        assert watcher.held() == store.held()
        assert store.lists == 3


def _on_page(page: str | None, answer: Handler) -> Failure:
    return lambda request: answer if request.query.get("continue") == page and "watch" not in request.query else None


@played
async def test_synced_is_set_after_the_last_page() -> None:
    store = _store(*(f"p{number:04}" for number in range(600)))
    blocked = asyncio.Event()

    async def block(request: web.BaseRequest) -> web.StreamResponse:
        await blocked.wait()
        return await store._list(request)

    store.failures.append(lambda request: block if "continue" in request.query else None)
    async with watching(store) as watcher:
        await watcher.until(lambda: len(watcher.held()) == 500)
        assert not watcher.informer.synced.is_set()
        blocked.set()
        await watcher.informer.synced.wait()
        assert watcher.held() == store.held()


@played
async def test_a_broken_watch_is_resumed() -> None:
    store = _store("a")
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        store.write("b")
        await watcher.agrees_with(store)
        store.cut_watches()
        store.write("c")
        store.delete("a")
        await watcher.agrees_with(store)
        assert (store.lists, store.watches) == (1, ["101", "102"])
        assert len(watcher.notified) == 4


@played
async def test_a_bookmark_advances_the_version() -> None:
    store = _store("a")
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        store.version = 500  # Other kinds of objects were written.
        store.bookmark()
        await watcher.until(lambda: watcher.informer._version == "500")
        store.forget()
        store.cut_watches()
        await watcher.until(lambda: len(store.watches) == 2)
        assert (store.lists, store.watches) == (1, ["101", "500"])
        assert len(watcher.notified) == 1


@pytest.mark.parametrize("within", [False, True], ids=["response", "event"])
@played
async def test_after_410_only_differences_are_notified(within: bool) -> None:
    store = _store("same", "gone", "changed")
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        watcher.notified.clear()
        if within:
            error = {"kind": "Status", "code": 410, "reason": "Expired"}
            store.failures.append(on_watch(streaming([event("ERROR", error)])))
        store.failures.append(on_watch(cut))
        store.cut_watches()
        store.delete("gone")
        store.write("changed")
        store.write("new")
        store.forget()
        await watcher.agrees_with(store)
        await watcher.until(lambda: store.watches[-1] == "106")
        assert len(watcher.notified) == 3
        assert set(watcher.notified) == {
            (None, "new-106@106"),
            ("changed-103@103", "changed-103@105"),
            ("gone-102@102", None),
        }
        assert store.lists == 2


@played
async def test_a_name_that_was_reused_during_a_gap() -> None:
    store = _store("a")
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        store.cut_watches()
        store.delete("a")
        store.write("a")
        store.forget()
        await watcher.agrees_with(store)
        assert watcher.notified == [(None, "a-101@101"), ("a-101@101", None), (None, "a-103@103")]


@played
async def test_own_writes_are_visible_at_once_and_notified_once() -> None:
    store = _store("a")
    async with watching(store) as watcher:
        await watcher.informer.synced.wait()
        created = store.write("b")
        watcher.informer.store.put(item_of(created))
        assert watcher.held() == {"a": "101", "b": "102"}
        watcher.informer.store.remove("a-101")
        store.delete("a")
        store.write("c")
        await watcher.agrees_with(store)
        assert watcher.notified == [
            (None, "a-101@101"),
            (None, "b-102@102"),
            ("a-101@101", None),
            (None, "c-104@104"),
        ]


@played
async def test_an_own_write_during_a_list_is_not_lost() -> None:
    store = _store("a")
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        answered, blocked = asyncio.Event(), asyncio.Event()
        outdated = await store._list(_request("/api/v1/pods?limit=500"))

        async def late(request: web.BaseRequest) -> web.StreamResponse:
            answered.set()
            await blocked.wait()
            return outdated

        store.failures += [on_watch(refusing(410, "Expired")), on_list(late)]
        store.cut_watches()
        await answered.wait()
        watcher.informer.store.put(item_of(store.write("b")))
        blocked.set()
        await watcher.until(lambda: len(store.watches) == 2)
        await watcher.agrees_with(store)
        assert watcher.notified == [(None, "a-101@101"), (None, "b-102@102")]


def _request(path: str) -> web.BaseRequest:
    from aiohttp.test_utils import make_mocked_request

    return make_mocked_request("GET", path)


@played
async def test_objects_that_decode_to_none_are_not_kept() -> None:
    store = _store("a")
    store.write("b", phase="boring")
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        assert watcher.held() == {"a": "101"}
        store.write("a", phase="boring")
        store.write("b", phase="good")
        await watcher.until(lambda: watcher.held() == {"b": "104"})
        store.delete("a")
        store.write("a")
        await watcher.agrees_with(store)
        assert watcher.informer._version == "106"


@played
async def test_an_undecodable_object_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        store = _store("a", "b")
        store.write("bad", phase=5)
        async with watching(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            assert watcher.held() == {"a": "101", "b": "102"}
            store.write("a", phase={"nested": True})
            store.write("b")
            store.write("c")
            # The known version is kept: the object cannot be decoded, but exists.
            await watcher.until(lambda: watcher.held() == {"a": "101", "b": "105", "c": "106"})
            store.cut_watches()
            store.forget()
            await watcher.until(lambda: len(store.watches) == 2)
            assert watcher.held() == {"a": "101", "b": "105", "c": "106"}
            store.write("bad")
            store.delete("a")
            await watcher.agrees_with(store)
    messages = [record.getMessage() for record in caplog.records if record.name == informer_module.__name__]
    assert any(message.startswith("cannot decode pods n/bad: ") for message in messages)
    assert any(message.startswith("cannot decode pods n/a: ") for message in messages)


@played
async def test_an_exception_in_a_listener_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    store = _store("a")
    async with watching(store) as watcher:
        await watcher.informer.synced.wait()
        store.write("b", phase="poison")
        store.write("c")
        await watcher.agrees_with(store)
    assert "handling a change of pods failed" in caplog.text


@pytest.mark.parametrize("code", [403, 404, 401])
@played
async def test_a_refused_watch_is_retried_and_logged_once(code: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        store = _store("a")
        store.failures += [on_list(refusing(code, "No")) for _ in range(6)]
        async with watching(store) as watcher:
            await watcher.informer.synced.wait()
    messages = [record.getMessage() for record in caplog.records if record.name == informer_module.__name__]
    problem = "the cluster has no such resource" if code == 404 else "said No"
    assert messages == [f"cannot watch pods: {problem}; retrying", "watching pods again"]


@pytest.mark.parametrize(
    ("code", "optional", "synced", "refused"),
    [
        pytest.param(403, True, True, False, id="forbidden, optional"),
        pytest.param(404, True, True, False, id="not found, optional"),
        pytest.param(503, True, False, False, id="unavailable, optional"),
        pytest.param(403, False, False, True, id="forbidden"),
        pytest.param(404, False, False, True, id="not found"),
        pytest.param(503, False, False, False, id="unavailable"),
    ],
)
def test_a_refused_optional_watch_counts_as_synced(code: int, optional: bool, synced: bool, refused: bool) -> None:
    async def story() -> tuple[bool, bool]:
        script = Script(refusing(code, "No"))
        async with client_of(script) as client:
            informer = Informer(client, PODS, decode=decode, changed=lambda _before, _after: None, optional=optional)
            informer._backoff = hasty()
            running = asyncio.ensure_future(informer.run())
            while len(script.asked) < 15:  # noqa: ASYNC110 - the script has no event
                await asyncio.sleep(0.002)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return informer.synced.is_set(), informer.is_refused

    assert play(story()) == (synced, refused)


@played
async def test_a_single_broken_connection_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        store = _store("a")
        async with watching(store) as watcher:
            for _ in range(4):
                await watcher.until(lambda: store.is_watched)
                store.cut_watches()
                store.write("a")
                await watcher.agrees_with(store)
    assert [record for record in caplog.records if record.name == informer_module.__name__] == []


@played
async def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        store = _store("a")
        async with watching(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            store.failures += [on_watch(answer) for answer in (cut, refusing(503), refusing(500), cut, refusing(429))]
            store.cut_watches()
            store.write("b")
            await watcher.agrees_with(store)
            assert (store.lists, store.watches) == (1, ["101", "101"])
    messages = [record.getMessage() for record in caplog.records if record.name == informer_module.__name__]
    assert messages[0].startswith("cannot watch pods: ")
    assert messages[1:] == ["watching pods again"]


@played
async def test_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "_MAX_SILENCE", 0.2)
    store = _store("a")
    store.failures.append(on_watch(streaming([], hold=True)))
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        store.write("b")
        await watcher.agrees_with(store)
        assert store.lists == 1


def test_short_watches_back_off() -> None:
    async def story() -> int:
        store, ended = _store("a"), 0

        async def ending(request: web.BaseRequest) -> web.StreamResponse:
            nonlocal ended
            ended += 1
            return await streaming([])(request)

        store.failures += [on_watch(ending) for _ in range(10_000)]
        async with watching(store) as watcher:
            watcher.informer._backoff.longest = 0.1
            await asyncio.sleep(1.0)
            return ended

    # The delay doubles from a millisecond up to the longest, then 10 to 20 requests per second follow.
    assert play(story()) <= 40


@played
async def test_a_restored_server() -> None:
    store = _store("kept", "changed", "gone")
    async with watching(store) as watcher:
        await watcher.until(lambda: len(store.watches) == 1)
        store.write("changed")
        store.delete("gone")
        store.write("lost")
        await watcher.agrees_with(store)
        gone = {
            "kind": "Pod",
            "metadata": {"name": "gone", "namespace": "n", "uid": "gone-103", "resourceVersion": "95"},
        }
        store.objects["gone"] = gone
        store.objects["changed"]["metadata"]["resourceVersion"] = "94"
        del store.objects["lost"]
        store.restore(version=96)
        await watcher.until(lambda: len(store.watches) == 2)
        # The version to resume from is in the future. Only the next event shows that the server was restored.
        store.bookmark()
        await watcher.agrees_with(store)
        store.write("new")
        await watcher.agrees_with(store)


def test_random_failures_end_with_the_state_of_the_server() -> None:
    """The seed decides what happens; the end must not depend on timing."""

    async def story(seed: int) -> None:
        rng, store = random.Random(seed), _store("a", "b", "c")
        steps: list[Callable[[], object]] = [
            lambda: store.write(rng.choice("abcdefgh")),
            lambda: store.write(rng.choice("abcdefgh")),
            lambda: store.delete(rng.choice(list(store.objects))) if store.objects else None,
            store.cut_watches,
            store.forget,
            store.bookmark,
            lambda: store.failures.append(rng.choice([on_watch, on_list])(rng.choice(failures))),
        ]
        error = {"kind": "Status", "code": 410, "reason": "Expired"}
        failures = [cut, refusing(429), refusing(500), refusing(410, "Expired"), streaming([event("ERROR", error)])]
        async with watching(store) as watcher:
            for _ in range(150):
                rng.choice(steps)()
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.choice([0, 0, 0.001, 0.005]))
            store.write("last")
            store.cut_watches()
            await watcher.agrees_with(store)
            assert replayed(watcher.notified) == {
                content["metadata"]["uid"]: content["metadata"]["resourceVersion"] for content in store.objects.values()
            }

    for seed in range(6):
        play(story(seed))
