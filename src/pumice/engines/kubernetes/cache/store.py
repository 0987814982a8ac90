"""What an informer knows: the objects by name, in the newest version seen, whether a watch or an own write showed it.

Answers to own writes and lines of a watch overtake each other. So a version never gives way to an older one, and what
was seen to be deleted does not come back to life when the answer that created it arrives late.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

# An answer that comes later than this after its object's deletion has been given up by everybody.
_LIFE = 300.0

Key = tuple[str, str]


class Known(Protocol):
    """What every object must tell of itself."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


T = TypeVar("T", bound=Known)


def is_older(version: str, than: str) -> bool:
    """Versions that are numbers are in order; of others, nothing can be said, and nothing is older."""
    if version.isdigit() and than.isdigit():
        return int(version) < int(than)
    return False


def by_name(item: Known) -> Key:
    return item.namespace, item.name


@dataclass(frozen=True, slots=True)
class _Tombstone:
    died: float
    # The version of the deletion, if the watch showed it. What is newer is alive: it only left the selection and came
    # back, which looks like a deletion to whoever watches by label.
    version: str | None


class Store(Generic[T]):
    def __init__(
        self,
        changed: Callable[[T | None, T | None], None],
        key: Callable[[T], Key] = by_name,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.items: dict[Key, T] = {}
        self._changed = changed
        self._key = key
        self._clock = clock
        self._keys: dict[str, Key] = {}
        self._tombstones: dict[str, _Tombstone] = {}

    def put(self, item: T, *, even_older: bool = False) -> None:
        """Take this version, unless it is known, outdated or dead."""
        key = self._key(item)
        before = self.items.get(key)
        if before is not None:
            if before.uid == item.uid and before.resource_version == item.resource_version:
                return
            if is_older(item.resource_version, before.resource_version) and not even_older:
                return
        if self._tombstones and self._is_dead(item):
            return
        if before is not None and before.uid != item.uid:
            # The name was given away: the one who had it is gone, whether or not anybody saw it go.
            self.removed(before.uid)
            before = None
        self.items[key] = item
        self._keys[item.uid] = key
        self._changed(before, item)

    def removed(self, uid: str, version: str | None = None) -> None:
        self._bury(uid, version)
        self._drop(uid)

    def left(self, uid: str, version: str) -> None:
        """It is alive, but as of this version of no interest any more. It may come back."""
        item = self.items.get(self._keys.get(uid, ("", "")))
        if item is not None and not is_older(version, item.resource_version):
            self._drop(uid)

    def start_over(self) -> None:
        """Forget who is dead: the server was set back to an earlier state, where they may be alive."""
        self._tombstones.clear()

    def _drop(self, uid: str) -> None:
        key = self._keys.pop(uid, None)
        if key is not None:
            self._changed(self.items.pop(key), None)

    def _is_dead(self, item: T) -> bool:
        tombstone = self._tombstones.get(item.uid)
        if tombstone is None:
            return False
        return tombstone.version is None or not is_older(tombstone.version, item.resource_version)

    def _bury(self, uid: str, version: str | None) -> None:
        now = self._clock()
        # They stand in the order of death, so the old ones are in front.
        for old in list(itertools.takewhile(lambda old: now - self._tombstones[old].died > _LIFE, self._tombstones)):
            del self._tombstones[old]
        self._tombstones.pop(uid, None)
        self._tombstones[uid] = _Tombstone(now, version)
