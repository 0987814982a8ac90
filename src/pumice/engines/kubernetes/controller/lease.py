"""A lock on a Lease: of several controllers, its holder works, and the others wait.

Durations are measured on the local monotonic clock, from the moment a change of the Lease was seen: the clocks of
machines differ, and are set.
"""

from __future__ import annotations

import datetime as dt
import enum
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.model.timestamps import to_microseconds

_log = logging.getLogger(__name__)
_UNKNOWN_HOLDER: Final = "an unknown controller"


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str
    name: str = ""


class _Lease(msgspec.Struct, frozen=True):
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

    @classmethod
    def unknown(cls, name: str, now: float) -> Observed:
        """Return a Lease that cannot be seen, and may be held until it must have expired."""
        return cls(name, "", now, _Spec(holder_identity=_UNKNOWN_HOLDER))

    def updated(self, raw: bytes | msgspec.Raw, now: float) -> Observed:
        lease = msgspec.json.decode(raw, type=_Lease)
        version = lease.metadata.resource_version
        return Observed(lease.metadata.name, version, self.since if version == self.version else now, lease.spec)

    def holder(self, now: float, default: float) -> str:
        """Return the holder if it has renewed the Lease in time, else an empty string."""
        expired = now - self.since >= (self.spec.lease_duration_seconds or default)
        return "" if expired else self.spec.holder_identity or ""


class Taken(enum.Enum):
    YES = "this process holds it"
    NO = "another process holds it"
    SKIPPED = "there is no such namespace, or this process may not hold Leases there"


@dataclass(slots=True)
class LeaseLock:
    client: Client
    namespace: str
    name: str
    identity: str
    now: Callable[[], dt.datetime]
    monotonic: Callable[[], float]
    durations: Durations = field(default_factory=Durations)
    is_held: bool = False
    is_readable: bool = True
    refusal: ApiError | None = None  # why it was skipped last
    _was_held: bool = False
    _observed: Observed = field(default_factory=Observed)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def holder(self) -> str:
        """The other process that holds the Lease, if any; also if the Lease was deleted and has not yet expired."""
        holder = self._observed.holder(self.monotonic(), self.durations.lease)
        return "" if holder == self.identity else holder

    async def observe(self) -> None:
        """Read the Lease. Where only lists are allowed, read it from a list."""
        self.refusal, self.is_readable = None, True
        try:
            raw: bytes | msgspec.Raw = await self.client.get(resources.LEASES, self.namespace, self.name, urgent=True)
        except ApiError as error:
            if error.not_found:
                self._observed = replace(self._observed, version="")
                return
            if not error.is_forbidden:
                raise
            self._skip(error)
            await self._observe_in_list()
        else:
            self._observed = self._observed.updated(raw, self.monotonic())

    async def _observe_in_list(self) -> None:
        selector = f"metadata.name={self.name}"
        try:
            async for items, _ in self.client.list_pages(resources.LEASES, self.namespace, field_selector=selector):
                for raw in items:
                    self._observed = self._observed.updated(raw, self.monotonic())
        except ApiError as error:
            if not error.is_forbidden:
                raise
            self.is_readable = False

    async def take(self) -> Taken:
        """Acquire or renew the Lease."""
        if self.is_held:
            # Usually nothing else wrote, so one request is enough.
            try:
                return await self._write(self._body(self.identity))
            except ApiError as error:
                # Not found: the Lease was deleted, and the first to create it holds it.
                if not error.is_conflict and not error.not_found:
                    raise
        self.is_held = False
        await self.observe()
        if self.holder:
            return Taken.NO
        if self.refusal is not None:
            return Taken.SKIPPED
        try:
            return await (self._write(self._body(self.identity)) if self._observed.version else self._create())
        except ApiError as error:
            if error.is_conflict or error.already_exists:
                return Taken.NO
            return self._skipped_namespace(error)

    async def release(self) -> None:
        """Give the Lease up, so that others need not wait until it expires."""
        if not self.is_held:
            return
        try:
            await self._write(self._body(holder="", duration=1))
        except ApiError as error:
            _log.info("could not release Lease %s: %s", self, error)
        self.is_held = False

    def _skipped_namespace(self, error: ApiError) -> Taken:
        """Skip a namespace that does not exist (any more), but wait for a holder whose Lease went with it."""
        if "NamespaceTerminating" in error.causes:
            if not self._was_held and not self._observed.spec.holder_identity:
                self._observed = Observed.unknown(self.name, self.monotonic())
        elif error.is_forbidden:
            self._skip(error)
        elif not error.not_found:
            raise error
        self.refusal = error
        return Taken.NO if self.holder else Taken.SKIPPED

    def _skip(self, error: ApiError) -> None:
        # Others rely on a Lease that was held once.
        if self._was_held:
            raise error
        self.refusal = error

    async def _create(self) -> Taken:
        body = msgspec.json.encode(self._body(self.identity))
        raw = await self.client.create(resources.LEASES, self.namespace, body, urgent=True)
        return self._written(raw)

    async def _write(self, body: dict[str, Any]) -> Taken:
        encoded = msgspec.json.encode(body)
        raw = await self.client.replace(resources.LEASES, self.namespace, self.name, encoded, urgent=True)
        return self._written(raw)

    def _written(self, raw: bytes) -> Taken:
        self._observed = self._observed.updated(raw, self.monotonic())
        self.is_held = self._was_held = True
        return Taken.YES

    def _body(self, holder: str, duration: int | None = None) -> dict[str, Any]:
        timestamp, spec = to_microseconds(self.now()), self._observed.spec
        changes = holder != (spec.holder_identity or "")
        metadata = {"name": self.name, "namespace": self.namespace}
        if self._observed.version:
            metadata["resourceVersion"] = self._observed.version
        return {
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
