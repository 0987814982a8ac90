"""The jobs about which something has changed: each is kept once, however often it is touched, until it is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from pumice.model.snapshot import JobKey


@dataclass(slots=True)
class Touched:
    _waiting: dict[JobKey, None] = field(default_factory=dict)
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    def touch(self, key: JobKey) -> None:
        if key not in self._waiting:
            self._waiting[key] = None
            self._some.set()

    def forget(self, key: JobKey) -> None:
        """What touched it is known, and needs nobody to look."""
        self._waiting.pop(key, None)

    def __contains__(self, key: JobKey) -> bool:
        return key in self._waiting

    async def keys(self) -> AsyncIterator[JobKey]:
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                yield key
