"""Stores the certificates: in a Secret that all replicas share, in a file, or in memory.

Storage is written by compare-and-set: if two replicas renew at the same time, one wins and the other loads its result.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.webhook.certificates import Credentials

_log = logging.getLogger(__name__)

_KEYS: Final = {"authority": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}


class CertificateStorage(Protocol):
    async def load(self) -> Credentials | None:
        """Return the stored credentials, or None if there are none or they cannot be read."""
        ...

    async def save(self, credentials: Credentials) -> bool:
        """Return False if another writer wrote since the last `load`."""
        ...

    async def changed(self) -> None:
        """Return when another writer has written since the last `load` or `save`."""
        ...


@dataclass(slots=True)
class MemoryStorage:
    stored: Credentials | None = None

    async def load(self) -> Credentials | None:
        return self.stored

    async def save(self, credentials: Credentials) -> bool:
        self.stored = credentials
        return True

    async def changed(self) -> None:
        await asyncio.Event().wait()


@dataclass(slots=True)
class FileStorage:
    """For a webhook outside of the cluster, which is the only writer."""

    path: Path

    async def load(self) -> Credentials | None:
        return await asyncio.to_thread(self._read)

    async def save(self, credentials: Credentials) -> bool:
        await asyncio.to_thread(self._write, credentials)
        return True

    async def changed(self) -> None:
        await asyncio.Event().wait()

    def _read(self) -> Credentials | None:
        try:
            return _from_data(msgspec.json.decode(self.path.read_bytes()))
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _write(self, credentials: Credentials) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(_to_data(credentials)))
        draft.replace(self.path)


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
