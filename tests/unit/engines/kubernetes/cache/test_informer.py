from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.api import watch
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
    refusing,
    streaming,
)
from tests.unit.engines.kubernetes.played_store import Fault, PlayedStore, on_list, on_watch, replayed


class Metadata(msgspec.Struct):
    name: str
    namespace: str
    uid: str
    version: str = msgspec.field(name="resourceVersion")


class Seen(msgspec.Struct):
    metadata: Metadata
    phase: str = ""

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.metadata.version


def decode(raw: msgspec.Raw) -> Seen | None:
    seen = msgspec.json.decode(raw, type=Seen)
    return None if seen.phase == "boring" else seen


class Watcher:
    """An informer that runs, and what it told."""

    def __init__(self, informer: Informer[Seen]) -> None:
        self.informer = informer
        self.told: list[tuple[str | None, str | None]] = []

    def held(self) -> dict[str, str]:
        return {name: item.resource_version for (_, name), item in self.informer.items.items()}

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - whatever the condition is made of
            await asyncio.sleep(0.002)

    async def agrees_with(self, store: PlayedStore) -> None:
        await self.until(lambda: self.held() == store.held())


@contextlib.asynccontextmanager
async def watching_over(store: PlayedStore, **how: str) -> AsyncIterator[Watcher]:
    async with client_of(store) as client:
        told: list[tuple[str | None, str | None]] = []

        def changed(before: Seen | None, after: Seen | None) -> None:
            told.append((_shown(before), _shown(after)))
            if after is not None and after.phase == "poison":
                raise RuntimeError("the listener has a defect")

        informer = Informer(client, PODS, decode=decode, changed=changed, namespace=how.get("namespace"))
        informer._backoff = hasty()
        watcher = Watcher(informer)
        watcher.told = told
        running = asyncio.ensure_future(informer.run())
        try:
            yield watcher
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _shown(item: Seen | None) -> str | None:
    return f"{item.uid}@{item.resource_version}" if item is not None else None


def _store(*names: str) -> PlayedStore:
    store = PlayedStore()
    for name in names:
        store.write(name)
    return store


def test_what_is_there_and_what_happens_then() -> None:
    async def story() -> None:
        store = _store("a", "b")
        async with watching_over(store) as watcher:
            await watcher.informer.synced.wait()
            assert watcher.held() == {"a": "101", "b": "102"}
            store.write("c")
            store.write("a")
            store.delete("b")
            await watcher.agrees_with(store)
            assert watcher.told == [
                (None, "a-101@101"),
                (None, "b-102@102"),
                (None, "c-103@103"),
                ("a-101@101", "a-101@104"),
                ("b-102@102", None),
            ]
            assert (store.lists, store.watches) == (1, ["102"])

    play(story())


def test_many_are_listed_in_pages() -> None:
    async def story() -> None:
        store = _store(*(f"p{number:04}" for number in range(1100)))
        async with watching_over(store) as watcher:
            await watcher.informer.synced.wait()
            assert watcher.held() == store.held()
            assert store.lists == 3

    play(story())


def test_a_page_that_fails_does_not_begin_the_list_anew() -> None:
    async def story() -> None:
        store = _store(*(f"p{number:04}" for number in range(1100)))
        for page in (None, "500", "1000"):
            store.faults += [_on_page(page, answer) for answer in (cut, refusing(429), refusing(503))]
        async with watching_over(store) as watcher:
            await watcher.informer.synced.wait()
            assert watcher.held() == store.held()
            assert store.lists == 3

    play(story())


def _on_page(page: str | None, answer: Handler) -> Fault:
    return lambda request: answer if request.query.get("continue") == page and "watch" not in request.query else None


def test_nothing_is_synced_before_the_last_page() -> None:
    async def story() -> None:
        store = _store(*(f"p{number:04}" for number in range(600)))
        blocked = asyncio.Event()

        async def block(request: web.BaseRequest) -> web.StreamResponse:
            await blocked.wait()
            return await store._list(request)

        store.faults.append(lambda request: block if "continue" in request.query else None)
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(watcher.held()) == 500)
            assert not watcher.informer.synced.is_set()
            blocked.set()
            await watcher.informer.synced.wait()
            assert watcher.held() == store.held()

    play(story())


def test_a_cut_watch_goes_on_where_it_ended() -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            store.write("b")
            await watcher.agrees_with(store)
            store.cut_watches()
            store.write("c")
            store.delete("a")
            await watcher.agrees_with(store)
            assert (store.lists, store.watches) == (1, ["101", "102"])
            assert len(watcher.told) == 4

    play(story())


def test_a_bookmark_moves_the_place_to_go_on() -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            store.version = 500  # Other kinds of objects were written.
            store.bookmark()
            await watcher.until(lambda: watcher.informer._version == "500")
            store.forget()
            store.cut_watches()
            await watcher.until(lambda: len(store.watches) == 2)
            assert (store.lists, store.watches) == (1, ["101", "500"])
            assert len(watcher.told) == 1

    play(story())


@pytest.mark.parametrize("within", [False, True], ids=["as an answer", "within the stream"])
def test_after_the_server_forgot_only_differences_are_told(within: bool) -> None:
    async def story() -> None:
        store = _store("same", "gone", "changed")
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            watcher.told.clear()
            if within:
                error = {"kind": "Status", "code": 410, "reason": "Expired"}
                store.faults.append(on_watch(streaming([event("ERROR", error)])))
            store.faults.append(on_watch(cut))
            store.cut_watches()
            store.delete("gone")
            store.write("changed")
            store.write("new")
            store.forget()
            await watcher.agrees_with(store)
            await watcher.until(lambda: store.watches[-1] == "106")
            assert len(watcher.told) == 3
            assert set(watcher.told) == {
                (None, "new-106@106"),
                ("changed-103@103", "changed-103@105"),
                ("gone-102@102", None),
            }
            assert store.lists == 2

    play(story())


def test_a_name_that_was_given_to_another_meanwhile() -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            store.cut_watches()
            store.delete("a")
            store.write("a")
            store.forget()
            await watcher.agrees_with(store)
            assert watcher.told == [(None, "a-101@101"), ("a-101@101", None), (None, "a-103@103")]

    play(story())


def test_what_we_wrote_is_known_at_once_and_told_once() -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            await watcher.informer.synced.wait()
            created = store.write("b")
            watcher.informer.put(msgspec.convert(created, Seen))
            assert watcher.held() == {"a": "101", "b": "102"}
            watcher.informer.removed("a-101")
            store.delete("a")
            store.write("c")
            await watcher.agrees_with(store)
            assert watcher.told == [
                (None, "a-101@101"),
                (None, "b-102@102"),
                ("a-101@101", None),
                (None, "c-104@104"),
            ]

    play(story())


def test_what_we_wrote_while_a_list_was_on_its_way_is_not_lost() -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            answered, blocked = asyncio.Event(), asyncio.Event()
            outdated = await store._list(_request("/api/v1/pods?limit=500"))

            async def late(request: web.BaseRequest) -> web.StreamResponse:
                answered.set()
                await blocked.wait()
                return outdated

            store.faults += [on_watch(refusing(410, "Expired")), on_list(late)]
            store.cut_watches()
            await answered.wait()
            watcher.informer.put(msgspec.convert(store.write("b"), Seen))
            blocked.set()
            await watcher.until(lambda: len(store.watches) == 2)
            await watcher.agrees_with(store)
            assert watcher.told == [(None, "a-101@101"), (None, "b-102@102")]

    play(story())


def _request(path: str) -> web.BaseRequest:
    from aiohttp.test_utils import make_mocked_request

    return make_mocked_request("GET", path)


def test_what_is_of_no_interest() -> None:
    async def story() -> None:
        store = _store("a")
        store.write("b", phase="boring")
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            assert watcher.held() == {"a": "101"}
            store.write("a", phase="boring")
            store.write("b", phase="good")
            await watcher.until(lambda: watcher.held() == {"b": "104"})
            store.delete("a")
            store.write("a")
            await watcher.agrees_with(store)
            assert watcher.informer._version == "106"

    play(story())


def test_an_object_that_cannot_be_read_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = _store("a", "b")
        store.write("bad", phase=5)
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            assert watcher.held() == {"a": "101", "b": "102"}
            store.write("a", phase={"nested": True})
            store.write("b")
            store.write("c")
            # What was known of it is kept: it cannot be read, but it is not gone.
            await watcher.until(lambda: watcher.held() == {"a": "101", "b": "105", "c": "106"})
            store.cut_watches()
            store.forget()
            await watcher.until(lambda: len(store.watches) == 2)
            assert watcher.held() == {"a": "101", "b": "105", "c": "106"}
            store.write("bad")
            store.delete("a")
            await watcher.agrees_with(store)

    with caplog.at_level(logging.WARNING):
        play(story())
    messages = [record.getMessage() for record in caplog.records if record.name == informer_module.__name__]
    assert any(message.startswith("cannot read pods n/bad: ") for message in messages)
    assert any(message.startswith("cannot read pods n/a: ") for message in messages)


def test_a_listener_with_a_defect_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            await watcher.informer.synced.wait()
            store.write("b", phase="poison")
            store.write("c")
            await watcher.agrees_with(store)

    play(story())
    assert "a change of pods could not be followed" in caplog.text


@pytest.mark.parametrize("code", [403, 404, 401])
def test_what_may_not_be_watched_is_tried_again_and_told_once(code: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = _store("a")
        store.faults += [on_list(refusing(code, "No")) for _ in range(6)]
        async with watching_over(store) as watcher:
            await watcher.informer.synced.wait()

    with caplog.at_level(logging.INFO):
        play(story())
    messages = [record.getMessage() for record in caplog.records if record.name == informer_module.__name__]
    problem = "the cluster has no such resource" if code == 404 else "said No"
    assert messages == [f"cannot watch pods: {problem}; trying again", "watching pods again"]


@pytest.mark.parametrize(
    ("code", "optional", "goes_on", "refused"),
    [
        pytest.param(403, True, True, False, id="forbidden, optional"),
        pytest.param(404, True, True, False, id="not there, optional"),
        pytest.param(503, True, False, False, id="away, optional"),
        pytest.param(403, False, False, True, id="forbidden"),
        pytest.param(404, False, False, True, id="not there"),
        pytest.param(503, False, False, False, id="away"),
    ],
)
def test_nobody_waits_for_what_may_not_be_watched_if_it_is_optional(
    code: int, optional: bool, goes_on: bool, refused: bool
) -> None:
    async def story() -> tuple[bool, bool]:
        script = Script(refusing(code, "No"))
        async with client_of(script) as client:
            informer = Informer(client, PODS, decode=decode, changed=lambda _before, _after: None, optional=optional)
            informer._backoff = hasty()
            running = asyncio.ensure_future(informer.run())
            while len(script.asked) < 15:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.002)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return informer.synced.is_set(), informer.is_refused

    assert play(story()) == (goes_on, refused)


def test_a_connection_that_breaks_now_and_then_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            for _ in range(4):
                await watcher.until(lambda: store.is_watched)
                store.cut_watches()
                store.write("a")
                await watcher.agrees_with(store)

    with caplog.at_level(logging.INFO):
        play(story())
    assert [record for record in caplog.records if record.name == informer_module.__name__] == []


def test_a_server_that_is_away_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = _store("a")
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            store.faults += [on_watch(answer) for answer in (cut, refusing(503), refusing(500), cut, refusing(429))]
            store.cut_watches()
            store.write("b")
            await watcher.agrees_with(store)
            assert (store.lists, store.watches) == (1, ["101", "101"])

    with caplog.at_level(logging.INFO):
        play(story())
    messages = [record.getMessage() for record in caplog.records if record.name == informer_module.__name__]
    assert messages[0].startswith("cannot watch pods: ")
    assert messages[1:] == ["watching pods again"]


def test_a_server_gone_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MAX_SILENCE", 0.2)

    async def story() -> None:
        store = _store("a")
        store.faults.append(on_watch(streaming([], hold=True)))
        async with watching_over(store) as watcher:
            await watcher.until(lambda: len(store.watches) == 1)
            store.write("b")
            await watcher.agrees_with(store)
            assert store.lists == 1

    play(story())


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop() -> None:
    async def story() -> int:
        store, ended = _store("a"), 0

        async def ending(request: web.BaseRequest) -> web.StreamResponse:
            nonlocal ended
            ended += 1
            return await streaming([])(request)

        store.faults += [on_watch(ending) for _ in range(10_000)]
        async with watching_over(store) as watcher:
            watcher.informer._backoff.longest = 0.1
            await asyncio.sleep(1.0)
            return ended

    # Up to the longest delay it doubles from a thousandth of a second, then ten to twenty a second.
    assert play(story()) <= 40


def test_a_server_set_back_to_an_earlier_state() -> None:
    async def story() -> None:
        store = _store("kept", "changed", "gone")
        async with watching_over(store) as watcher:
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
            # The place to go on is in the future. Only the next word from the server shows that it was set back.
            store.bookmark()
            await watcher.agrees_with(store)
            store.write("new")
            await watcher.agrees_with(store)

    play(story())


def test_any_faults_in_any_order_lead_to_what_the_server_holds() -> None:
    """Deterministic but for the network: the seed decides what happens, the end must not depend on when."""

    async def story(seed: int) -> None:
        rng, store = random.Random(seed), _store("a", "b", "c")
        steps: list[Callable[[], object]] = [
            lambda: store.write(rng.choice("abcdefgh")),
            lambda: store.write(rng.choice("abcdefgh")),
            lambda: store.delete(rng.choice(list(store.objects))) if store.objects else None,
            store.cut_watches,
            store.forget,
            store.bookmark,
            lambda: store.faults.append(rng.choice([on_watch, on_list])(rng.choice(troubles))),
        ]
        error = {"kind": "Status", "code": 410, "reason": "Expired"}
        troubles = [cut, refusing(429), refusing(500), refusing(410, "Expired"), streaming([event("ERROR", error)])]
        async with watching_over(store) as watcher:
            for _ in range(150):
                rng.choice(steps)()
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.choice([0, 0, 0.001, 0.005]))
            store.write("last")
            store.cut_watches()
            await watcher.agrees_with(store)
            assert replayed(watcher.told) == {
                content["metadata"]["uid"]: content["metadata"]["resourceVersion"] for content in store.objects.values()
            }

    for seed in range(6):
        play(story(seed))
