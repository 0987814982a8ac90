"""A copy of some objects of a cluster that a watch keeps current. A lost connection is retried for ten minutes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from pumice.client.cluster.connection import Connection
from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.store.run_errors import ConnectionFailed, Denied

PATIENCE: Final = 600.0  # seconds
_LONGEST_PAUSE: Final = 5.0
SHORT_WATCH: Final = 1.0  # seconds; a server that ends watches so early must not be asked in a tight loop
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_MOST_REFUSALS: Final = 8


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_OBJECT: Final = msgspec.json.Decoder(_Object)
T = TypeVar("T")


def read_metadata(raw: msgspec.Raw) -> _Metadata:
    """Return the uid and the version of an object; a bookmark of a watch has only a version."""
    return _OBJECT.decode(raw).metadata


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
class LiveObjects:
    connection: Connection
    resource: Resource
    namespace: str
    labels: str = ""
    fields: str = ""
    objects: dict[str, msgspec.Raw] = field(default_factory=dict)  # by uid
    is_listed: bool = False  # `objects` is known
    versions: list[msgspec.Raw] | None = None  # all that the watch has seen, for a reader that takes them
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: BaseException | None = None

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

    async def _run(self) -> None:
        patience = Patience(self.connection)
        version: str | None = None
        while True:
            try:
                version = await self._list() if version is None else version
                patience.succeeded()
                began = time.monotonic()
                version = await self._watch(version)
                if time.monotonic() - began < SHORT_WATCH:
                    await asyncio.sleep(SHORT_WATCH)
            except ApiError as error:
                # What happened meanwhile is in the next list.
                version = None
                if not error.gone:
                    await patience.after(error)

    async def _list(self) -> str:
        found: dict[str, msgspec.Raw] = {}
        version = ""
        pages = self.connection.client.list_pages(
            self.resource, self.namespace, label_selector=self.labels, field_selector=self.fields
        )
        async with aclosing(pages):
            async for items, newest in pages:
                version = newest
                found |= {read_metadata(raw).uid: raw for raw in items}
        self.objects, self.is_listed = found, True
        self._changed.set()
        return version

    async def _watch(self, version: str) -> str:
        changes = self.connection.client.watch(
            self.resource,
            self.namespace,
            resource_version=version,
            label_selector=self.labels,
            field_selector=self.fields,
        )
        async with aclosing(changes):
            async for kind, raw in changes:
                metadata = read_metadata(raw)
                version = metadata.resource_version
                if self.versions is not None and kind != "BOOKMARK":
                    self.versions.append(raw)
                if kind == "DELETED":
                    self.objects.pop(metadata.uid, None)
                elif kind != "BOOKMARK":
                    self.objects[metadata.uid] = raw
                else:
                    continue
                self._changed.set()
        return version


async def patiently(connection: Connection, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer: a lost connection is retried. Raises RunError."""
    patience = Patience(connection)
    while True:
        try:
            answer = await ask()
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
