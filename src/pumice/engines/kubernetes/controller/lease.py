"""A lock on a Lease: of several controllers, its holder works, and the others wait.

Durations are measured on the local monotonic clock, from the moment a change of the Lease was seen: the clocks of
machines differ, and are set.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.install import names
from pumice.model.units import to_microseconds

_log = logging.getLogger(__name__)


class _Spec(Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Meta(Struct, rename="camel", frozen=True):
    resource_version: str
    name: str = ""


class _Lease(Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


class Durations(Struct, frozen=True):
    lease: float = 15.0  # how long others wait after the last renewal they saw
    renew: float = 10.0  # how long the holder works without a renewal
    retry: float = 2.0


class Observed(Struct, frozen=True):
    """The last seen version of a Lease, and since when it has not changed."""

    name: str = ""
    version: str = ""
    since: float = 0.0
    spec: _Spec = msgspec.field(default_factory=_Spec)

    def updated(self, raw: bytes | msgspec.Raw, now: float) -> Observed:
        lease = msgspec.json.decode(raw, type=_Lease)
        version = lease.metadata.resource_version
        return Observed(lease.metadata.name, version, self.since if version == self.version else now, lease.spec)

    def holder(self, now: float, default: float) -> str:
        """Return the holder if it has renewed the Lease in time, else an empty string."""
        expired = now - self.since >= (self.spec.lease_duration_seconds or default)
        return "" if expired else self.spec.holder_identity or ""


@dataclass(slots=True)
class LeaseLock:
    client: Client
    name: str
    identity: str
    now: Callable[[], dt.datetime]
    monotonic: Callable[[], float]
    durations: Durations = field(default_factory=Durations)
    is_held: bool = False
    _observed: Observed = field(default_factory=Observed)

    def __str__(self) -> str:
        return f"{names.LEASE_NAMESPACE}/{self.name}"

    @property
    def holder(self) -> str:
        """The other process that holds the Lease, if any; also if the Lease was deleted and has not yet expired."""
        holder = self._observed.holder(self.monotonic(), self.durations.lease)
        return "" if holder == self.identity else holder

    async def observe(self) -> None:
        """Read the Lease."""
        try:
            raw = await self.client.get(resources.LEASES, names.LEASE_NAMESPACE, self.name, urgent=True)
        except ApiError as error:
            if not error.not_found:
                raise
            self._observed = replace(self._observed, version="")
        else:
            self._observed = self._observed.updated(raw, self.monotonic())

    async def take(self) -> bool:
        """Acquire or renew the Lease, unless another process holds it."""
        if self.is_held:
            # Usually nothing else wrote, so one request is enough.
            try:
                await self._write(self.identity)
            except ApiError as error:
                # Not found: the Lease was deleted, and the first to create it holds it.
                if not error.is_conflict and not error.not_found:
                    raise
            else:
                return True
        self.is_held = False
        await self.observe()
        if self.holder:
            return False
        try:
            await self._write(self.identity)
        except ApiError as error:
            if not error.is_conflict and not error.already_exists:
                raise
            return False
        self.is_held = True
        return True

    async def release(self) -> None:
        """Give the Lease up, so that others need not wait until it expires."""
        if not self.is_held:
            return
        try:
            await self._write(holder="", duration=1)
        except ApiError as error:
            _log.info("could not release Lease %s: %s", self, error)
        self.is_held = False

    async def _write(self, holder: str, duration: int | None = None) -> None:
        """Replace the Lease as it was seen last, or create it."""
        timestamp, spec = to_microseconds(self.now()), self._observed.spec
        changes = holder != (spec.holder_identity or "")
        metadata = {"name": self.name, "namespace": names.LEASE_NAMESPACE}
        if self._observed.version:
            metadata["resourceVersion"] = self._observed.version
        lease: dict[str, Any] = {
            "apiVersion": resources.LEASES.api_version,
            "kind": resources.LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration or int(self.durations.lease),
                "renewTime": timestamp,
                "acquireTime": timestamp if changes else spec.acquire_time,
                "leaseTransitions": (spec.lease_transitions or 0) + (1 if changes and holder else 0),
            },
        }
        body = msgspec.json.encode(lease)
        if self._observed.version:
            write = self.client.replace(resources.LEASES, names.LEASE_NAMESPACE, self.name, body, urgent=True)
        else:
            write = self.client.create(resources.LEASES, names.LEASE_NAMESPACE, body, urgent=True)
        self._observed = self._observed.updated(await write, self.monotonic())
