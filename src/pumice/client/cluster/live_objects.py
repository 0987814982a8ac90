"""Copies of objects of a cluster that a watch keeps current; a lost connection is borne for ten minutes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec

from pumice.client.cluster.connection import Connection
from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.engines.kubernetes.api.resources import Resource
from pumice.store.run_errors import ConnectionFailed, Denied, RunError

PATIENCE: Final = 600.0  # seconds
_LONGEST_PAUSE: Final = 5.0
_SHORT_WATCH: Final = 1.0  # seconds; a server that ends watches so early must not be asked in a tight loop
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_MOST_REFUSALS: Final = 8
_REFUSED_PAUSE: Final = 60.0  # after an error that does not pass by itself, such as a missing right

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
class LiveTable(Generic[T]):
    """The objects of a kind, decoded as they arrive, and kept current by a watch for as long as a program stays open.

    A lost connection is retried without end: what was read last stays, and `failure` says why it may be old.
    `decode` returns None for an object that is not kept; `on_change` is called before and after each change.
    """

    connection: Connection
    resource: Resource
    namespace: str  # empty for all
    decode: Callable[[msgspec.Raw], T | None]
    on_change: Callable[[T | None, T | None], None] = lambda _before, _after: None
    labels: str = field(default="", kw_only=True)
    fields: str = field(default="", kw_only=True)
    items: dict[str, T] = field(default_factory=dict, kw_only=True)  # by uid
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
        self.on_change(before, item)

    def _remove(self, uid: str) -> None:
        if (before := self.items.pop(uid, None)) is not None:
            self.on_change(before, None)

    def _updated(self, raw: msgspec.Raw | None) -> None:
        """Called after all objects were listed, and after each change with the object."""

    def _succeeded(self) -> None:
        """Called when a watch begins: the server answers."""
        self.failure = None
        self._backoff.reset()
        self._listed.set()

    async def _failed(self, error: ApiError) -> None:
        """Wait until the next attempt, or raise."""
        self.failure = self.connection.explained(error)
        self._listed.set()
        pause = self._backoff.after_failure(error.retry_after)
        await asyncio.sleep(pause if error.is_transient else _REFUSED_PAUSE)


@dataclass(slots=True)
class LiveObjects(LiveTable[msgspec.Raw]):
    """All of each object, for a reader that waits for changes. It gives up when its patience ends."""

    decode: Callable[[msgspec.Raw], msgspec.Raw | None] = lambda raw: raw
    versions: list[msgspec.Raw] | None = None  # all that the watch has seen, for a reader that takes them
    _patience: Patience = field(init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._patience = Patience(self.connection)

    @property
    def is_listed(self) -> bool:
        return self._listed.is_set()

    async def changed(self, timeout: float) -> bool:  # noqa: ASYNC109 - a change is not an error that is late
        """Wait for a change; return whether there was one. Raises RunError if the cluster cannot be read."""
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        if self._task is not None and self._task.done():
            self._task.result()
        return True

    async def _run(self) -> None:
        try:
            await LiveTable._run(self)  # noqa: SLF001 - a class with slots has no super() here
        finally:
            # Whoever waits for a change gets the error.
            self._changed.set()

    def _updated(self, raw: msgspec.Raw | None) -> None:
        if self.versions is not None and raw is not None:
            self.versions.append(raw)
        self._changed.set()

    def _succeeded(self) -> None:
        self._patience.succeeded()
        self._listed.set()

    async def _failed(self, error: ApiError) -> None:
        await self._patience.after(error)


@asynccontextmanager
async def live(objects: LiveObjects) -> AsyncIterator[LiveObjects]:
    """Keep a copy current within the block."""
    objects.start()
    try:
        yield objects
    finally:
        await objects.close()


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


async def within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Wait for something for some time at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work
