"""An informer: lists all objects of one kind, then watches them, and keeps a copy up to date through any failure.

A watch that ends is resumed where it ended. Everything is listed again only when the server has forgotten that version,
and then only real differences are notified. An object that cannot be decoded does not affect the others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic

import msgspec

from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import ObjectMetadata, read_metadata
from pumice.engines.kubernetes.api.raw_objects import members
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.cache.store import HasIdentity, Store, T, is_older
from pumice.model.pumice_error import PumiceError

_log = logging.getLogger(__name__)

# Seconds between attempts, short because the cache is stale meanwhile; there are only a few watches.
_MAX_DELAY = 5.0
# A watch that ended sooner, in seconds, did not end by its timeout.
_SHORT_WATCH = 1.0
# Retry a page, or a list of many pages would start again at every failure.
_PAGE_ATTEMPTS = 5
_UNREACHABLE = "unreachable"
_IDENTITY = ("namespace", "name", "uid", "resourceVersion")


class _OutdatedError(PumiceError):
    """The watch cannot be resumed; everything must be listed again."""


@dataclass(slots=True)
class Informer(Generic[T]):
    client: Client
    resource: Resource
    decode: Callable[[msgspec.Raw], T | None]
    changed: Callable[[T | None, T | None], None]
    namespace: str | None = None
    label_selector: str = ""
    metadata_only: bool = False
    optional: bool = False
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    store: Store[T] = field(init=False)
    _version: str | None = None  # to resume the watch from; None if everything must be listed first
    _newest: str = ""  # version ever seen, to notice that the server was restored to an earlier state
    _backoff: Backoff = field(default_factory=lambda: Backoff(first=0.5, longest=_MAX_DELAY))
    _failures: int = 0
    _logged_failure: str = ""  # the last one, until the watch works again

    def __post_init__(self) -> None:
        self.store = Store(self._changed)

    @property
    def is_refused(self) -> bool:
        """Whether watching fails for a reason that does not pass by itself."""
        return self._logged_failure not in ("", _UNREACHABLE) and not self.optional

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except _OutdatedError:
                self._version = None
            except ApiError as error:
                if error.gone:
                    self._version = None
                await self._wait(error)

    async def _list(self) -> None:
        seen: set[str] = set()
        version, restored = "", False
        pages = self.client.list_pages(
            self.resource,
            self.namespace,
            label_selector=self.label_selector,
            metadata_only=self.metadata_only,
            attempts=_PAGE_ATTEMPTS,
        )
        async with aclosing(pages):
            async for items, version in pages:
                if not restored and is_older(version, self._newest):
                    restored = True
                    self.store.clear_tombstones()
                seen.update(self._take(raw, allow_older=restored).uid for raw in items)
        for item in list(self.store.items.values()):
            # An own write after the list was made is not in it, but exists.
            if item.uid not in seen and (restored or not is_older(version, item.resource_version)):
                self.store.remove(item.uid)
        self._version = self._newest = version
        self._succeeded()
        self.synced.set()

    async def _watch(self) -> None:
        began = time.monotonic()
        changes = self.client.watch(
            self.resource,
            self.namespace,
            resource_version=self._version or "",
            label_selector=self.label_selector,
            metadata_only=self.metadata_only,
        )
        async with aclosing(changes):
            async for kind, raw in changes:
                self._handle_event(kind, raw)
        if time.monotonic() - began < _SHORT_WATCH:
            # A server that ends every watch at once must not be asked in a tight loop.
            await asyncio.sleep(self._backoff.after_failure())

    def _handle_event(self, kind: str, raw: msgspec.Raw) -> None:
        seen: HasIdentity
        if kind in {"ADDED", "MODIFIED"}:
            seen = self._take(raw)
        else:
            seen = _identity(raw)
            if kind == "DELETED":
                self.store.remove(seen.uid, seen.resource_version)
        version = seen.resource_version
        if is_older(version, self._newest):
            # Versions only grow within a watch: the server was restored, and its changes since then are unknown.
            raise _OutdatedError
        if version:
            self._version = self._newest = version
        self._succeeded()

    def _take(self, raw: msgspec.Raw, *, allow_older: bool = False) -> HasIdentity:
        try:
            item = self.decode(raw)
        except Exception as error:  # noqa: BLE001 - one object must not affect the others
            seen = _identity(raw)
            # Keep the known version: an object that cannot be decoded still exists.
            _log.warning("cannot decode %s %s/%s: %s", self.resource.full_name, seen.namespace, seen.name, error)
            return seen
        if item is None:
            seen = _identity(raw)
            self.store.deselect(seen.uid, seen.resource_version)
            return seen
        self.store.put(item, allow_older=allow_older)
        return item

    def _changed(self, before: T | None, after: T | None) -> None:
        try:
            self.changed(before, after)
        except Exception:  # noqa: BLE001 - a defect of one listener must not end the watch
            _log.exception("handling a change of %s failed", self.resource.full_name)

    async def _wait(self, error: ApiError) -> None:
        self._failures += 1
        failure = _UNREACHABLE if error.is_transient else str(error.status)
        # Log a failure once, and a single broken connection not at all.
        if failure != self._logged_failure and (not error.is_transient or self._failures > 1) and not error.gone:
            self._logged_failure = failure
            reason = "the cluster has no such resource" if error.not_found else error
            _log.warning("cannot watch %s: %s; retrying", self.resource.full_name, reason)
        if self.optional and (error.is_forbidden or error.not_found):
            self.synced.set()
        await asyncio.sleep(self._backoff.after_failure(error.retry_after))

    def _succeeded(self) -> None:
        if self._failures:
            self._failures = 0
            self._backoff.reset()
            if self._logged_failure:
                self._logged_failure = ""
                _log.info("watching %s again", self.resource.full_name)


def _identity(raw: msgspec.Raw) -> ObjectMetadata:
    try:
        return read_metadata(raw)
    except RecursionError:
        # The metadata may be as deep as the object: managedFields repeats its structure.
        parts = members(bytes(members(bytes(raw)).get("metadata", b"")))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ObjectMetadata()
    try:
        fields = {name: msgspec.json.decode(parts[name], type=str) for name in _IDENTITY if name in parts}
        return msgspec.convert(fields, ObjectMetadata)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ObjectMetadata()
