"""Keeps a copy of all objects of one kind: lists them once, then watches, for ever, through whatever happens.

A watch that ends is taken up again where it ended. Only when the server does not remember that place any more is
everything listed again, and then only what really differs is told. One object that cannot be read harms no other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic

import msgspec

from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.deep_json import members
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.cache.store import Key, Store, T, by_name, is_older

_log = logging.getLogger(__name__)

# Whoever is blind must not stay so for long after the server is back. A handful of watches is no storm.
_LONGEST_WAIT = 5.0
# A watch that ended sooner, in seconds, did not come to its natural end.
_SHORT = 1.0
# A list of many pages would never come to its end if the failure of one began it anew.
_ATTEMPTS_A_PAGE = 5
_AWAY = "away"


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _Identity(msgspec.Struct):
    """The least that every object has, for those that are not decoded further."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_IDENTITY = msgspec.json.Decoder(_Identity)
_IDENTITY_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(_Metadata))


class _OutdatedError(Exception):
    """The watch cannot be taken up where it ended; all must be listed again."""


class Informer(Generic[T]):
    def __init__(  # noqa: PLR0913 - what to watch, and what to do with it
        self,
        client: Client,
        resource: Resource,
        *,
        decode: Callable[[msgspec.Raw], T | None],
        changed: Callable[[T | None, T | None], None],
        key: Callable[[T], Key] = by_name,
        namespace: str | None = None,
        label_selector: str = "",
        metadata_only: bool = False,
        optional: bool = False,
    ) -> None:
        self.synced = asyncio.Event()
        self._optional = optional
        self._client = client
        self.resource = resource
        self.namespace = namespace
        self._label_selector = label_selector
        self._metadata_only = metadata_only
        self._decode = decode
        self._tell = changed
        self._store: Store[T] = Store(self._changed, key)
        # From where to go on watching; None where all must be listed first.
        self._version: str | None = None
        # The newest version ever shown by the server, to notice that it was set back.
        self._newest = ""
        self._backoff = Backoff(first=0.5, longest=_LONGEST_WAIT)
        self._failures = 0
        # What was told of the present trouble.
        self._trouble = ""

    @property
    def items(self) -> dict[Key, T]:
        return self._store.items

    @property
    def is_refused(self) -> bool:
        """Whether it cannot be watched any more, for a reason that does not pass by itself."""
        return self._trouble not in ("", _AWAY) and not self._optional

    def put(self, item: T) -> None:
        """An object as the answer to an own write shows it: known at once, not only when the watch tells."""
        self._store.put(item)

    def removed(self, uid: str) -> None:
        """The object is gone, as the answer to an own delete says."""
        self._store.removed(uid)

    async def run(self) -> None:
        """Never ends by itself."""
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
        version, set_back = "", False
        pages = self._client.list_pages(
            self.resource,
            self.namespace,
            label_selector=self._label_selector,
            metadata_only=self._metadata_only,
            attempts=_ATTEMPTS_A_PAGE,
        )
        async with aclosing(pages):
            async for items, version in pages:
                if not set_back and is_older(version, self._newest):
                    set_back = True
                    self._store.start_over()
                seen.update(self._take(raw, even_older=set_back).uid for raw in items)
        for item in list(self.items.values()):
            # What an own write showed after the list was made is not in it, and there all the same.
            if item.uid not in seen and (set_back or not is_older(version, item.resource_version)):
                self._store.removed(item.uid)
        self._version = self._newest = version
        self._well()
        self.synced.set()

    async def _watch(self) -> None:
        began = time.monotonic()
        changes = self._client.watch(
            self.resource,
            self.namespace,
            resource_version=self._version or "",
            label_selector=self._label_selector,
            metadata_only=self._metadata_only,
        )
        async with aclosing(changes):
            async for kind, raw in changes:
                self._follow(kind, raw)
        if time.monotonic() - began < _SHORT:
            # A server that ends every watch at once must not be asked in a tight loop.
            await asyncio.sleep(self._backoff.after_failure())

    def _follow(self, kind: str, raw: msgspec.Raw) -> None:
        if kind in {"ADDED", "MODIFIED"}:
            seen = self._take(raw)
        else:
            seen = _identity(raw)
            if kind == "DELETED":
                self._store.removed(seen.uid, seen.version)
        if is_older(seen.version, self._newest):
            # Within a watch versions only grow. This server was set back, and what it did since then is not known.
            raise _OutdatedError
        if seen.version:
            self._version = self._newest = seen.version
        self._well()

    def _take(self, raw: msgspec.Raw, *, even_older: bool = False) -> _Metadata:
        try:
            item = self._decode(raw)
        except Exception as error:  # noqa: BLE001 - whatever one object holds, the others must go on
            seen = _identity(raw)
            # The version known so far is kept: an object that cannot be read is not an object that is gone.
            _log.warning("cannot read %s %s/%s: %s", self.resource.full_name, seen.namespace, seen.name, error)
            return seen
        if item is None:
            seen = _identity(raw)
            self._store.left(seen.uid, seen.version)
            return seen
        self._store.put(item, even_older=even_older)
        return _Metadata(item.name, item.namespace, item.uid, item.resource_version)

    def _changed(self, before: T | None, after: T | None) -> None:
        try:
            self._tell(before, after)
        except Exception:  # noqa: BLE001 - a defect of one listener must not end the watch for all
            _log.exception("a change of %s could not be followed", self.resource.full_name)

    async def _wait(self, error: ApiError) -> None:
        self._failures += 1
        trouble = _AWAY if error.is_transient else str(error.status)
        # Told once, not at each try; and a connection that breaks now and then is not worth a word.
        if trouble != self._trouble and (not error.is_transient or self._failures > 1) and not error.gone:
            self._trouble = trouble
            problem = "the cluster has no such resource" if error.not_found else error
            _log.warning("cannot watch %s: %s; trying again", self.resource.full_name, problem)
        if self._optional and (error.is_forbidden or error.not_found):
            # Nobody need wait for what will not come.
            self.synced.set()
        await asyncio.sleep(self._backoff.after_failure(error.retry_after))

    def _well(self) -> None:
        if self._failures:
            self._failures = 0
            self._backoff.reset()
            if self._trouble:
                self._trouble = ""
                _log.info("watching %s again", self.resource.full_name)


def _identity(raw: msgspec.Raw) -> _Metadata:
    try:
        return _IDENTITY.decode(raw).metadata
    except RecursionError:
        return _identity_of_deep(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Metadata()


def _identity_of_deep(raw: msgspec.Raw) -> _Metadata:
    """Its metadata may be as deep: who wrote which field is told there."""
    parts = members(bytes(members(bytes(raw)).get("metadata", b"")))
    try:
        words = {name: msgspec.json.decode(parts[name], type=str) for name in _IDENTITY_FIELDS if name in parts}
        return msgspec.convert(words, _Metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Metadata()
