"""The jobs about which something has changed: each is kept once, however often it is touched, until it is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from pumice.model.snapshot import JobKey


@dataclass(slots=True)
class Touched:
    # Whoever only stands by would gather every job that ever was.
    _is_open: bool = False
    _waiting: dict[JobKey, None] = field(default_factory=dict)
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        """From now on, keys are kept; to begin with, whoever listens must look at every job anyway."""
        self._is_open = True

    def close(self) -> None:
        """Nobody will take them any more."""
        self._is_open = False
        self._waiting.clear()

    def touch(self, key: JobKey) -> None:
        if self._is_open and key not in self._waiting:
            self._waiting[key] = None
            self._some.set()

    async def keys(self) -> AsyncIterator[JobKey]:
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                yield key
