"""The objects of an informer by name, each in the newest version seen, in a watch or in the response to an own write.

Responses and watch events overtake each other. So a version is never replaced by an older one, and a deleted object
does not return when the response that created it arrives late.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

# Seconds that a tombstone is kept: no response arrives later.
_TOMBSTONE_LIFE = 300.0

Key = tuple[str, str]  # namespace and name


class Identity(Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    resource_version: str


class HasIdentity(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


T = TypeVar("T", bound=HasIdentity)


def is_older(version: str, than: str) -> bool:
    """Compare numeric versions; others have no order, so none is older."""
    return version.isdigit() and than.isdigit() and int(version) < int(than)


class _Tombstone(Struct, frozen=True):
    created: float
    # The version of the deletion, if the watch showed it. A newer object is alive: it only lost its label for a while,
    # which looks like a deletion in a watch by label.
    version: str | None


@dataclass(slots=True)
class Store(Generic[T]):
    changed: Callable[[T | None, T | None], None]
    clock: Callable[[], float] = time.monotonic
    items: dict[Key, T] = field(default_factory=dict)
    _keys: dict[str, Key] = field(default_factory=dict)
    _tombstones: dict[str, _Tombstone] = field(default_factory=dict)

    def put(self, item: T, *, allow_older: bool = False) -> None:
        """Store this version, unless it is known, older than the known one, or deleted."""
        key = (item.namespace, item.name)
        before = self.items.get(key)
        if before is not None:
            if before.uid == item.uid and before.resource_version == item.resource_version:
                return
            if is_older(item.resource_version, before.resource_version) and not allow_older:
                return
        if self._tombstones and self._is_deleted(item):
            return
        if before is not None and before.uid != item.uid:
            # The name was reused: the old object is gone, whether or not its deletion was seen.
            self.remove(before.uid)
            before = None
        self.items[key] = item
        self._keys[item.uid] = key
        self.changed(before, item)

    def remove(self, uid: str, version: str | None = None) -> None:
        now = self.clock()
        # Tombstones are in the order of deletion, so the expired ones come first.
        expired = itertools.takewhile(
            lambda old: now - self._tombstones[old].created > _TOMBSTONE_LIFE, self._tombstones
        )
        for old in list(expired):
            del self._tombstones[old]
        self._tombstones.pop(uid, None)
        self._tombstones[uid] = _Tombstone(now, version)
        self._drop(uid)

    def deselect(self, uid: str, version: str) -> None:
        """Drop an object that exists but is not decoded as of this version. It may return."""
        item = self.items.get(self._keys.get(uid, ("", "")))
        if item is not None and not is_older(version, item.resource_version):
            self._drop(uid)

    def clear_tombstones(self) -> None:
        """Forget deletions: the server was restored to an earlier state, in which the objects may exist."""
        self._tombstones.clear()

    def _drop(self, uid: str) -> None:
        key = self._keys.pop(uid, None)
        if key is not None:
            self.changed(self.items.pop(key), None)

    def _is_deleted(self, item: T) -> bool:
        tombstone = self._tombstones.get(item.uid)
        if tombstone is None:
            return False
        return tombstone.version is None or not is_older(tombstone.version, item.resource_version)
