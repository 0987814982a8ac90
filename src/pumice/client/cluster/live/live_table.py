"""The objects of a kind, decoded as they arrive and kept current by a watch for as long as a program stays open.

A lost connection is retried without end: what was read last stays, and `failure` says why it may be old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from pumice.client.cluster.live_objects import ObjectWatch
from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.store.run_errors import RunError

T = TypeVar("T")
_LONGEST_PAUSE: Final = 5.0
_REFUSED_PAUSE: Final = 60.0  # after an error that does not pass by itself, such as a missing right


async def within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Wait for something for some time at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


@dataclass(slots=True)
class LiveTable(ObjectWatch[T]):
    """`decode` returns None for an object that is not kept; `changed` is called before and after each change."""

    decode: Callable[[msgspec.Raw], T | None]
    changed: Callable[[T | None, T | None], None] = lambda _before, _after: None
    failure: RunError | None = None  # why it is not current
    _listed: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _backoff: Backoff = field(default_factory=lambda: Backoff(first=0.2, longest=_LONGEST_PAUSE))

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def first(self) -> None:
        """Start, and wait until all objects are read, or cannot be: then `failure` says why."""
        self.start()
        await self._listed.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _succeeded(self) -> None:
        self.failure = None
        self._backoff.reset()
        self._listed.set()

    async def _failed(self, error: ApiError) -> None:
        self.failure = self.connection.explained(error)
        self._listed.set()
        pause = self._backoff.after_failure(error.retry_after)
        await asyncio.sleep(pause if error.is_transient else _REFUSED_PAUSE)

    def _put(self, uid: str, raw: msgspec.Raw) -> None:
        try:
            item = self.decode(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError, TypeError, LookupError):
            # Of an object that cannot be read, what was known stays.
            return
        if item is None:
            self._remove(uid)
            return
        before = self.items.get(uid)
        self.items[uid] = item
        self.changed(before, item)

    def _remove(self, uid: str) -> None:
        if (before := self.items.pop(uid, None)) is not None:
            self.changed(before, None)
