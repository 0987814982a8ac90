from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engines.kubernetes.cache.store import Store, is_older
from tests.unit.engines.kubernetes.played_store import replayed


@dataclass(frozen=True)
class Item:
    name: str
    resource_version: str
    uid: str
    namespace: str = "n"


def item_of(name: str, version: int, uid: str = "") -> Item:
    return Item(name, str(version), uid or f"u-{name}")


class Listener:
    def __init__(self) -> None:
        self.notified: list[tuple[str | None, str | None]] = []
        self.now = 0.0
        self.store: Store[Item] = Store(self.changed, clock=lambda: self.now)

    def changed(self, before: Item | None, after: Item | None) -> None:
        self.notified.append((_shown(before), _shown(after)))

    @property
    def held(self) -> dict[str, str]:
        return {item.name: item.resource_version for item in self.store.items.values()}


def _shown(item: Item | None) -> str | None:
    return f"{item.uid}@{item.resource_version}" if item is not None else None


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        pytest.param("9", "10", True, id="numeric"),
        pytest.param("10", "9", False, id="newer"),
        pytest.param("10", "10", False, id="equal"),
        pytest.param("a", "b", False, id="no numbers"),
        pytest.param("", "5", False, id="empty"),
        pytest.param("5", "", False, id="than empty"),
    ],
)
def test_is_older(version: str, than: str, expected: bool) -> None:
    assert is_older(version, than) == expected


def test_each_version_is_notified_once() -> None:
    listener = Listener()
    for version in (1, 1, 3, 3, 2, 3):
        listener.store.put(item_of("a", version))
    assert listener.notified == [(None, "u-a@1"), ("u-a@1", "u-a@3")]
    assert listener.held == {"a": "3"}


def test_a_late_response_does_not_revive_a_deleted_object() -> None:
    listener = Listener()
    listener.store.put(item_of("a", 1))
    listener.store.remove("u-a", "5")
    listener.store.put(item_of("a", 1))
    listener.store.put(item_of("a", 4))
    assert listener.notified == [(None, "u-a@1"), ("u-a@1", None)]
    assert listener.held == {}


def test_deleted_before_it_was_known() -> None:
    listener = Listener()
    listener.store.remove("u-a", "5")
    listener.store.put(item_of("a", 1))
    assert listener.notified == []


def test_an_own_deletion_has_no_version() -> None:
    listener = Listener()
    listener.store.put(item_of("a", 1))
    listener.store.remove("u-a")
    listener.store.put(item_of("a", 9))
    listener.store.remove("u-a")
    assert listener.held == {}
    assert listener.notified == [(None, "u-a@1"), ("u-a@1", None)]


def test_an_object_that_lost_its_label_may_return() -> None:
    """In a watch by label, an object without the label looks deleted."""
    listener = Listener()
    listener.store.put(item_of("a", 1))
    listener.store.remove("u-a", "5")
    listener.store.put(item_of("a", 6))
    assert listener.held == {"a": "6"}


def test_a_reused_name() -> None:
    listener = Listener()
    listener.store.put(item_of("a", 1, "old"))
    listener.store.put(item_of("a", 7, "new"))
    listener.store.put(item_of("a", 3, "old"))
    listener.store.remove("old", "5")
    assert listener.notified == [(None, "old@1"), ("old@1", None), (None, "new@7")]
    assert listener.held == {"a": "7"}


def test_a_deselected_object_may_return() -> None:
    listener = Listener()
    listener.store.put(item_of("a", 5))
    listener.store.deselect("u-a", "4")
    assert listener.held == {"a": "5"}
    listener.store.deselect("u-a", "6")
    listener.store.deselect("u-a", "7")
    listener.store.deselect("unknown", "7")
    assert listener.held == {}
    listener.store.put(item_of("a", 8))
    assert listener.held == {"a": "8"}


def test_tombstones_expire() -> None:
    listener = Listener()
    for number in range(1000):
        listener.now = float(number)
        listener.store.remove(f"u-{number}", "5")
    assert len(listener.store._tombstones) <= 302


def test_a_restored_server_may_revive_objects() -> None:
    listener = Listener()
    listener.store.put(item_of("a", 9))
    listener.store.remove("u-b", "8")
    listener.store.clear_tombstones()
    listener.store.put(item_of("a", 4), allow_older=True)
    listener.store.put(item_of("b", 3), allow_older=True)
    assert listener.held == {"a": "4", "b": "3"}


def test_versions_without_order_are_replaced() -> None:
    listener = Listener()
    for version in ("b", "a", "c"):
        listener.store.put(Item("a", version, "u"))
    assert listener.held == {"a": "c"}


@given(
    writes=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "delete"])), max_size=25),
    seed=st.integers(0, 2**32),
)
def test_events_and_responses_in_any_order(writes: list[tuple[str, str]], seed: int) -> None:
    """The watch is ordered; the response to a write arrives at any time after it."""
    server: dict[str, Item] = {}
    watch: list[tuple[str, Item]] = []
    responses: list[Item] = []
    for version, (name, what) in enumerate(writes, start=1):
        if what == "write":
            uid = server[name].uid if name in server else f"u-{name}-{version}"
            server[name] = item_of(name, version, uid)
            watch.append(("put", server[name]))
            responses.append(server[name])
        elif name in server:
            watch.append(("removed", item_of(name, version, server.pop(name).uid)))
    rng, listener = random.Random(seed), Listener()
    rng.shuffle(responses)
    while watch or responses:
        if watch and (not responses or rng.random() < 0.5):
            kind, item = watch.pop(0)
            if kind == "put":
                listener.store.put(item)
            else:
                listener.store.remove(item.uid, item.resource_version)
        else:
            listener.store.put(responses.pop())
    assert listener.held == {name: item.resource_version for name, item in server.items()}
    assert replayed(listener.notified) == {item.uid: item.resource_version for item in server.values()}
