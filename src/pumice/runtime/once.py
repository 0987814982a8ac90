"""Once: what many callers notice is reported by the first of them."""

from __future__ import annotations

from collections.abc import Hashable


class Once:
    def __init__(self) -> None:
        self._keys: set[Hashable] = set()

    def first(self, key: Hashable) -> bool:
        """Return whether this is the key's first use, or its first since `forget`."""
        known = len(self._keys)
        self._keys.add(key)
        return len(self._keys) > known

    def forget(self, key: Hashable) -> None:
        self._keys.discard(key)
