"""Rotates the serving certificate: create or load it, publish its CA to the API server, then serve it.

The API server trusts a new authority before the first replica serves a certificate of it, and trusts the old one until
the last replica has followed. Each pass checks everything again, so that the next pass repairs what failed or what
someone else changed; a change of the storage starts a pass at once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import datetime as dt
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends
from pumice.engines.kubernetes.webhook.certificates import Credentials, is_due, is_overlapping, merged, renewed
from pumice.engines.kubernetes.webhook.registration import Publication

_KEYS: Final = {"authority": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
RETRY_INTERVAL: Final = 5.0
# An API server loads changed webhook configurations with a delay; until then it trusts only the old CA.
SETTLING: Final = 10.0
# Of two replicas that write at the same time one wins, so a few attempts are enough.
_ATTEMPTS: Final = 5


class CertificateStorage(Protocol):
    """Written by compare-and-set: if two replicas renew at the same time, one wins and the other loads its result."""

    async def load(self) -> Credentials | None:
        """Return the stored credentials, or None if there are none or they cannot be read."""

    async def save(self, credentials: Credentials) -> bool:
        """Return False if another writer wrote since the last `load`."""

    async def changed(self) -> None:
        """Return when another writer has written since the last `load` or `save`."""


@dataclass(slots=True)
class LocalStorage:
    """For a webhook outside of the cluster, which is the only writer: a file or, without a path, memory."""

    path: Path | None = None
    stored: Credentials | None = None

    async def load(self) -> Credentials | None:
        return self.stored if self.path is None else await asyncio.to_thread(_read, self.path)

    async def save(self, credentials: Credentials) -> bool:
        self.stored = credentials
        if self.path is not None:
            await asyncio.to_thread(_write, self.path, credentials)
        return True

    async def changed(self) -> None:
        await asyncio.Event().wait()


def _read(path: Path) -> Credentials | None:
    try:
        return _from_data(msgspec.json.decode(path.read_bytes()))
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _write(path: Path, credentials: Credentials) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(_to_data(credentials)))
    draft.replace(path)


@dataclass(slots=True)
class SecretStorage:
    """A Secret that `pumice install` creates empty; it is filled here, never created."""

    client: Client
    namespace: str
    name: str
    _loaded: dict[str, Any] = field(default_factory=dict)

    async def load(self) -> Credentials | None:
        raw = await self.client.get(resources.SECRETS, self.namespace, self.name, attempts=None)
        self._loaded = msgspec.json.decode(raw)
        return _from_data(self._loaded.get("data"))

    async def save(self, credentials: Credentials) -> bool:
        # With the loaded resourceVersion, so that a newer Secret is not overwritten.
        body = msgspec.json.encode({**self._loaded, "data": _to_data(credentials)})
        try:
            raw = await self.client.replace(resources.SECRETS, self.namespace, self.name, body=body)
        except ApiError as error:
            if error.is_conflict:
                return False
            raise
        self._loaded = msgspec.json.decode(raw)
        return True

    async def changed(self) -> None:
        try:
            changes = self.client.watch(
                resources.SECRETS,
                self.namespace,
                resource_version=self._loaded["metadata"]["resourceVersion"],
                # RBAC grants a watch of one object only with this selector.
                field_selector=f"metadata.name={self.name}",
            )
            async with aclosing(changes):
                async for kind, _ in changes:
                    if kind != "BOOKMARK":
                        return
        except ApiError as error:
            _log.debug("could not watch Secret %s/%s: %s", self.namespace, self.name, error)
        # Without a watch, the next pass notices changes.
        await asyncio.Event().wait()


def _to_data(credentials: Credentials) -> dict[str, str]:
    return {key: base64.b64encode(getattr(credentials, part)).decode() for part, key in _KEYS.items()}


def _from_data(data: object) -> Credentials | None:
    if not isinstance(data, dict):
        return None
    try:
        parts = {part: base64.b64decode(data[key], validate=True) for part, key in _KEYS.items()}
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return Credentials(**parts)


@dataclass(slots=True)
class CertificateRotation:
    storage: CertificateStorage
    names: Sequence[str]
    now: Callable[[], dt.datetime]
    # Publishes a CA bundle, beside the authorities that are published already or instead of them.
    publish: Callable[[bytes, bool], Coroutine[Any, Any, Publication]]
    serve: Callable[[Credentials], None]
    settling: float = SETTLING
    served: Credentials | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # starts a pass

    async def rotate(self) -> None:
        credentials, served = await self._current(), self.served
        published = await self._publish(credentials)
        if credentials == served:
            return
        if served is None or credentials.issuer != served.issuer:
            if served is not None and not published.trusted:
                # The API server still trusts the certificate that is served; it would refuse the new one.
                return
            settled = published.is_sole and not published.replaced
            while not settled:
                await asyncio.sleep(self.settling)
                # Another writer may have removed the new authority in the meantime.
                settled = not (await self._publish(credentials)).replaced
        self.serve(credentials)
        self.served = credentials
        kind = "new" if served is not None else "trusted" if published.trusted else "first"
        _log.info("serving a %s certificate", kind)

    async def run(self, interval: float = INTERVAL) -> None:
        """Rotate at every change, and at intervals, until cancelled. Log a failure once and retry."""
        failure = ""
        while True:
            self.wake.clear()
            try:
                await self.rotate()
                failure = ""
            except (ApiError, OSError) as error:
                if str(error) != failure:
                    failure = str(error)
                    _log.warning("could not rotate the certificates: %s; retrying", error)
            if failure:
                await asyncio.sleep(min(interval, RETRY_INTERVAL))
            else:
                await run_until_first_ends(asyncio.sleep(interval), self.wake.wait(), self.storage.changed())

    async def _publish(self, credentials: Credentials) -> Publication:
        """Publish the authorities of all certificates that this or another replica may serve."""
        overlapping = is_overlapping(credentials, self.now())
        own = self.served.issuer if self.served is not None else b""
        bundle = merged(credentials.authority if overlapping else credentials.issuer, own)
        return await self.publish(bundle, overlapping)

    async def _current(self) -> Credentials:
        """Return the stored credentials, renewed if they are due, lost or damaged."""
        trusted = self.served.issuer if self.served is not None else b""
        for _ in range(_ATTEMPTS):
            stored = await self.storage.load()
            if stored is not None and not is_due(stored, self.names, self.now()):
                return stored
            # Generating keys takes milliseconds, in which the event loop answers reviews.
            made = await asyncio.to_thread(renewed, stored, self.names, self.now(), trusted=trusted)
            if await self.storage.save(made):
                return made
        raise OSError(f"another writer replaced the certificates {_ATTEMPTS} times in a row")
