"""Copies of objects of a cluster that a watch keeps current. A lost connection is retried for ten minutes."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import msgspec

from pumice.client.cluster.connection import Connection
from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.engines.kubernetes.api.resources import Resource
from pumice.store.run_errors import ConnectionFailed, Denied

PATIENCE: Final = 600.0  # seconds
_LONGEST_PAUSE: Final = 5.0
_SHORT_WATCH: Final = 1.0  # seconds; a server that ends watches so early must not be asked in a tight loop
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_MOST_REFUSALS: Final = 8


T = TypeVar("T")


@dataclass(slots=True)
class Patience:
    """Waits after a failure, until failures have lasted for too long. The connection tells of each loss once."""

    connection: Connection
    clock: Callable[[], float] = time.monotonic
    _since: float | None = None
    _refusals: int = 0
    _backoff: Backoff = field(default_factory=lambda: Backoff(first=0.2, longest=_LONGEST_PAUSE))

    async def after(self, error: ApiError) -> None:
        """Raises RunError if waiting does not help."""
        now = self.clock()
        # A server that has just started may not know yet who has which right.
        is_starting = self._since is not None and error.status in _REFUSED and now - self._since < PATIENCE
        if is_starting:
            self._refusals += 1
        if not (error.is_transient or (is_starting and self._refusals <= _MOST_REFUSALS)):
            raise self.connection.explained(error) from error
        if self._since is None:
            self._since = now
            self.connection.lost(str(error))
        if now - self._since > PATIENCE:
            raise self.connection.explained(error) from error
        await asyncio.sleep(self._backoff.after_failure(error.retry_after))

    def succeeded(self) -> None:
        if self._since is not None:
            self._since, self._refusals = None, 0
            self.connection.found()
            self._backoff.reset()


@dataclass(slots=True)
class ObjectWatch(ABC, Generic[T]):
    """Lists the objects of a kind, then watches them, again and again. Its subclasses say what they keep of each."""

    connection: Connection
    resource: Resource
    namespace: str  # empty for all
    labels: str = field(default="", kw_only=True)
    fields: str = field(default="", kw_only=True)
    items: dict[str, T] = field(default_factory=dict, kw_only=True)  # by uid

    @abstractmethod
    def _put(self, uid: str, raw: msgspec.Raw) -> None: ...

    def _remove(self, uid: str) -> None:
        self.items.pop(uid, None)

    def _updated(self, raw: msgspec.Raw | None) -> None:
        """Called after all objects were listed, and after each change with the object."""

    @abstractmethod
    def _succeeded(self) -> None:
        """Called when a watch begins: the server answers."""

    @abstractmethod
    async def _failed(self, error: ApiError) -> None:
        """Wait until the next attempt, or raise."""

    async def _run(self) -> None:
        version: str | None = None
        while True:
            try:
                version = await self._list() if version is None else version
                self._succeeded()
                began = time.monotonic()
                version = await self._watch(version)
                if time.monotonic() - began < _SHORT_WATCH:
                    await asyncio.sleep(_SHORT_WATCH)
            except ApiError as error:
                # What happened meanwhile is in the next list, which also shows that the server answers again.
                version = None
                if not error.gone:
                    await self._failed(error)

    async def _list(self) -> str:
        seen: set[str] = set()
        version = ""
        pages = self.connection.client.list_pages(
            self.resource, self.namespace or None, label_selector=self.labels, field_selector=self.fields
        )
        async with aclosing(pages):
            async for objects, newest in pages:
                version = newest
                for raw in objects:
                    uid = read_metadata(raw).uid
                    seen.add(uid)
                    self._put(uid, raw)
        for uid in self.items.keys() - seen:
            self._remove(uid)
        self._updated(None)
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
                if kind == "BOOKMARK":
                    continue
                if kind == "DELETED":
                    self._remove(metadata.uid)
                else:
                    self._put(metadata.uid, raw)
                self._updated(raw)
        return version


@dataclass(slots=True)
class LiveObjects(ObjectWatch[msgspec.Raw]):
    """All of each object, for a reader that waits for changes."""

    is_listed: bool = False  # `items` is known
    versions: list[msgspec.Raw] | None = None  # all that the watch has seen, for a reader that takes them
    _patience: Patience = field(init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: BaseException | None = None

    def __post_init__(self) -> None:
        self._patience = Patience(self.connection)

    async def changed(self, timeout: float) -> bool:  # noqa: ASYNC109 - a change is not an error that is late
        """Wait for a change; return whether there was one. Raises RunError if the cluster cannot be read."""
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        if self._failure is not None:
            raise self._failure
        return True

    async def run(self) -> None:
        try:
            await self._run()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits for a change gets it
            self._failure = error
            self._changed.set()

    def _put(self, uid: str, raw: msgspec.Raw) -> None:
        self.items[uid] = raw

    def _updated(self, raw: msgspec.Raw | None) -> None:
        self.is_listed = True
        if self.versions is not None and raw is not None:
            self.versions.append(raw)
        self._changed.set()

    def _succeeded(self) -> None:
        self._patience.succeeded()

    async def _failed(self, error: ApiError) -> None:
        await self._patience.after(error)


async def patiently(connection: Connection, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer: a lost connection is retried. Raises RunError."""
    patience = Patience(connection)
    while True:
        try:
            answer = await ask()
        except ApiError as error:
            await patience.after(error)
        except (ConnectionFailed, Denied) as error:
            if not isinstance(error.__cause__, ApiError):
                raise
            await patience.after(error.__cause__)
        else:
            patience.succeeded()
            return answer


@asynccontextmanager
async def live(objects: LiveObjects) -> AsyncIterator[LiveObjects]:
    """Keep a copy current within the block."""
    task = asyncio.create_task(objects.run())
    try:
        yield objects
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
