from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engines.kubernetes.cache.store import Store, is_older
from tests.unit.engines.kubernetes.played_store import replayed


@dataclass(frozen=True)
class Thing:
    name: str
    resource_version: str
    uid: str
    namespace: str = "n"


def thing(name: str, version: int, uid: str = "") -> Thing:
    return Thing(name, str(version), uid or f"u-{name}")


class Listener:
    def __init__(self) -> None:
        self.told: list[tuple[str | None, str | None]] = []
        self.now = 0.0
        self.store: Store[Thing] = Store(self.changed, clock=lambda: self.now)

    def changed(self, before: Thing | None, after: Thing | None) -> None:
        self.told.append((_shown(before), _shown(after)))

    @property
    def held(self) -> dict[str, str]:
        return {item.name: item.resource_version for item in self.store.items.values()}


def _shown(item: Thing | None) -> str | None:
    return f"{item.uid}@{item.resource_version}" if item is not None else None


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        pytest.param("9", "10", True, id="as numbers"),
        pytest.param("10", "9", False, id="newer"),
        pytest.param("10", "10", False, id="the same"),
        pytest.param("a", "b", False, id="no numbers"),
        pytest.param("", "5", False, id="none"),
        pytest.param("5", "", False, id="than none"),
    ],
)
def test_the_order_of_versions(version: str, than: str, expected: bool) -> None:
    assert is_older(version, than) == expected


def test_each_version_is_told_once() -> None:
    listener = Listener()
    for version in (1, 1, 3, 3, 2, 3):
        listener.store.put(thing("a", version))
    assert listener.told == [(None, "u-a@1"), ("u-a@1", "u-a@3")]
    assert listener.held == {"a": "3"}


def test_what_was_deleted_stays_dead_when_its_answer_comes_late() -> None:
    listener = Listener()
    listener.store.put(thing("a", 1))
    listener.store.removed("u-a", "5")
    listener.store.put(thing("a", 1))
    listener.store.put(thing("a", 4))
    assert listener.told == [(None, "u-a@1"), ("u-a@1", None)]
    assert listener.held == {}


def test_deleted_before_it_was_ever_known() -> None:
    listener = Listener()
    listener.store.removed("u-a", "5")
    listener.store.put(thing("a", 1))
    assert listener.told == []


def test_our_own_deletion_needs_no_version() -> None:
    listener = Listener()
    listener.store.put(thing("a", 1))
    listener.store.removed("u-a")
    listener.store.put(thing("a", 9))
    listener.store.removed("u-a")
    assert listener.held == {}
    assert listener.told == [(None, "u-a@1"), ("u-a@1", None)]


def test_what_left_the_selection_may_come_back() -> None:
    """To whoever watches by label, an object whose label went looks deleted."""
    listener = Listener()
    listener.store.put(thing("a", 1))
    listener.store.removed("u-a", "5")
    listener.store.put(thing("a", 6))
    assert listener.held == {"a": "6"}


def test_a_name_that_is_given_to_another() -> None:
    listener = Listener()
    listener.store.put(thing("a", 1, "old"))
    listener.store.put(thing("a", 7, "new"))
    listener.store.put(thing("a", 3, "old"))
    listener.store.removed("old", "5")
    assert listener.told == [(None, "old@1"), ("old@1", None), (None, "new@7")]
    assert listener.held == {"a": "7"}


def test_what_is_of_no_interest_any_more() -> None:
    listener = Listener()
    listener.store.put(thing("a", 5))
    listener.store.left("u-a", "4")
    assert listener.held == {"a": "5"}
    listener.store.left("u-a", "6")
    listener.store.left("u-a", "7")
    listener.store.left("unknown", "7")
    assert listener.held == {}
    listener.store.put(thing("a", 8))
    assert listener.held == {"a": "8"}


def test_tombstones_do_not_pile_up() -> None:
    listener = Listener()
    for number in range(1000):
        listener.now = float(number)
        listener.store.removed(f"u-{number}", "5")
    assert len(listener.store._tombstones) <= 302


def test_after_the_server_was_set_back_the_dead_may_live() -> None:
    listener = Listener()
    listener.store.put(thing("a", 9))
    listener.store.removed("u-b", "8")
    listener.store.start_over()
    listener.store.put(thing("a", 4), even_older=True)
    listener.store.put(thing("b", 3), even_older=True)
    assert listener.held == {"a": "4", "b": "3"}


def test_versions_that_are_no_numbers_take_the_newcomer() -> None:
    listener = Listener()
    for version in ("b", "a", "c"):
        listener.store.put(Thing("a", version, "u"))
    assert listener.held == {"a": "c"}


@given(
    writes=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "delete"])), max_size=25),
    seed=st.integers(0, 2**32),
)
def test_watch_and_answers_in_any_order_lead_to_what_the_server_holds(writes: list[tuple[str, str]], seed: int) -> None:
    """The watch keeps its order; the answer to each write comes at any time after the write."""
    server: dict[str, Thing] = {}
    watch: list[tuple[str, Thing]] = []
    answers: list[Thing] = []
    for version, (name, what) in enumerate(writes, start=1):
        if what == "write":
            uid = server[name].uid if name in server else f"u-{name}-{version}"
            server[name] = thing(name, version, uid)
            watch.append(("put", server[name]))
            answers.append(server[name])
        elif name in server:
            watch.append(("removed", thing(name, version, server.pop(name).uid)))
    rng, listener = random.Random(seed), Listener()
    rng.shuffle(answers)
    while watch or answers:
        if watch and (not answers or rng.random() < 0.5):
            kind, item = watch.pop(0)
            if kind == "put":
                listener.store.put(item)
            else:
                listener.store.removed(item.uid, item.resource_version)
        else:
            listener.store.put(answers.pop())
    assert listener.held == {name: item.resource_version for name, item in server.items()}
    assert replayed(listener.told) == {item.uid: item.resource_version for item in server.values()}
