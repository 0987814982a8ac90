"""The objects of a kind, decoded as they arrive and kept current by a watch for as long as a program stays open.

A lost connection is retried without end: what was read last stays, and `failure` says why it may be old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live_objects import SHORT_WATCH, read_metadata
from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
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
class LiveTable(Generic[T]):
    """`decode` returns None for an object that is not kept; `changed` is called before and after each change."""

    connection: Connection
    resource: Resource
    namespace: str  # empty for all
    decode: Callable[[msgspec.Raw], T | None]
    changed: Callable[[T | None, T | None], None] = lambda _before, _after: None
    labels: str = ""
    fields: str = ""
    items: dict[str, T] = field(default_factory=dict)  # by uid
    failure: RunError | None = None  # why it is not current
    _listed: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

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

    async def _run(self) -> None:
        backoff = Backoff(first=0.2, longest=_LONGEST_PAUSE)
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._list()
                self.failure = None
                backoff.reset()
                self._listed.set()
                began = time.monotonic()
                version = await self._watch(version)
                if time.monotonic() - began < SHORT_WATCH:
                    await asyncio.sleep(SHORT_WATCH)
            except ApiError as error:
                # What happened meanwhile is in the next list, which also shows that the server answers again.
                version = None
                if error.gone:
                    continue
                self.failure = self.connection.explained(error)
                self._listed.set()
                pause = backoff.after_failure(error.retry_after)
                await asyncio.sleep(pause if error.is_transient else _REFUSED_PAUSE)

    async def _list(self) -> str:
        seen: set[str] = set()
        version = ""
        pages = self.connection.client.list_pages(
            self.resource, self.namespace or None, label_selector=self.labels, field_selector=self.fields
        )
        async with aclosing(pages):
            async for items, newest in pages:
                version = newest
                seen.update(map(self._take, items))
        for uid in self.items.keys() - seen:
            self._remove(uid)
        return version

    async def _watch(self, version: str) -> str:
        changes = self.connection.client.watch(
            self.resource,
            self.namespace or None,
            resource_version=version,
            label_selector=self.labels,
            field_selector=self.fields,
        )
        async with aclosing(changes):
            async for kind, raw in changes:
                metadata = read_metadata(raw)
                version = metadata.resource_version or version
                if kind == "DELETED":
                    self._remove(metadata.uid)
                elif kind in ("ADDED", "MODIFIED"):
                    self._take(raw)
        return version

    def _take(self, raw: msgspec.Raw) -> str:
        uid = read_metadata(raw).uid
        try:
            item = self.decode(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError, TypeError, LookupError):
            # Of an object that cannot be read, what was known stays.
            return uid
        if item is None:
            self._remove(uid)
            return uid
        before = self.items.get(uid)
        self.items[uid] = item
        self.changed(before, item)
        return uid

    def _remove(self, uid: str) -> None:
        if (before := self.items.pop(uid, None)) is not None:
            self.changed(before, None)
