"""A lock on a Lease: of several controllers, its holder works, and the others wait.

A holder that cannot renew the Lease stops well before another controller may take it. Durations are measured on the
local monotonic clock, from the moment a change of the Lease was seen: the clocks of machines differ, and are set.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.model.timestamps import to_microseconds

_log = logging.getLogger(__name__)
_JITTER: Final = 0.2
_RANDOM: Final = random.Random()  # noqa: S311 - only keeps two candidates out of step


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class Durations:
    lease: float = 15.0  # how long others wait after the last renewal they saw
    renew: float = 10.0  # how long the holder works without a renewal
    retry: float = 2.0


@dataclass(frozen=True, slots=True)
class _Observed:
    """The last seen version of a Lease, and since when it has not changed."""

    version: str = ""
    since: float = 0.0
    spec: _Spec = field(default_factory=_Spec)

    def updated(self, raw: bytes, now: float) -> _Observed:
        lease = msgspec.json.decode(raw, type=_Lease)
        version = lease.metadata.resource_version
        return _Observed(version, self.since if version == self.version else now, lease.spec)

    def is_held(self, now: float, default: float) -> bool:
        """Whether it has a holder that has renewed it in time."""
        return bool(self.spec.holder_identity) and now - self.since < (self.spec.lease_duration_seconds or default)


@dataclass(slots=True)
class LeaseLock:
    client: Client
    namespace: str
    name: str
    identity: str
    now: Callable[[], dt.datetime]
    monotonic: Callable[[], float]
    durations: Durations = field(default_factory=Durations)
    superseding: str = ""  # another Lease: while that one is held, this one stays free
    is_leader: bool = False
    _observed: _Observed = field(default_factory=_Observed)
    _superseding: _Observed = field(default_factory=_Observed)
    _logged_forbidden: bool = False
    _renewed: float = 0.0  # when the last successful renewal began

    @property
    def _holder(self) -> tuple[str, str]:
        """The holder and the name of the Lease to wait for."""
        if self._is_superseded():
            return self._superseding.spec.holder_identity or "", self.superseding
        return self._observed.spec.holder_identity or "", self.name

    async def acquire(self) -> None:
        """Return when this process holds the Lease."""
        logged = ""
        while True:
            began = self.monotonic()
            try:
                if await self._try():
                    self.is_leader, self._renewed = True, began
                    return
                holder, name = self._holder
                if holder + name != logged:
                    _log.info("waiting: %s holds Lease %s/%s", holder, self.namespace, name)
                    logged = holder + name
            except ApiError as error:
                if str(error) != logged:
                    hint = "" if error.is_transient else "; --lease-namespace chooses another namespace for it"
                    _log.warning("could not acquire Lease %s/%s: %s%s", self.namespace, self.name, error, hint)
                    logged = str(error)
            await asyncio.sleep(self.durations.retry * _RANDOM.uniform(1 - _JITTER, 1 + _JITTER) / 2)

    async def hold(self) -> None:
        """Renew the Lease; return when it is lost."""
        while True:
            await asyncio.sleep(self.durations.retry)
            began = self.monotonic()
            try:
                async with asyncio.timeout(max(0.1, self._renewed + self.durations.renew - began)):
                    if not await self._try():
                        holder, name = self._holder
                        _log.error("Lease %s/%s was taken by %s", self.namespace, name, holder)
                        break
                # Others count from the moment when the server stored the write, which may be long before its response.
                self._renewed = began
            except (ApiError, TimeoutError) as error:
                reason = str(error) or "no response"
                _log.warning("could not renew Lease %s/%s: %s", self.namespace, self.name, reason)
                if self.monotonic() - self._renewed >= self.durations.renew:
                    _log.error("Lease %s/%s was not renewed in time", self.namespace, self.name)
                    break
        self.is_leader = False

    async def release(self) -> None:
        """Give the Lease up, so that others need not wait until it expires."""
        if not self.is_leader:
            return
        self.is_leader = False
        try:
            await self._write(self._body(holder="", duration=1))
        except ApiError as error:
            _log.info("could not release Lease %s/%s: %s", self.namespace, self.name, error)

    async def _try(self) -> bool:
        """Acquire or renew the Lease; return whether this process holds it."""
        if self.superseding:
            await self._observe_superseding()
        return not self._is_superseded() and await self._take()

    async def _take(self) -> bool:
        if self.is_leader:
            # Usually nothing else wrote, so one request is enough.
            try:
                await self._write(self._body(self.identity))
            except ApiError as error:
                # Not found: the Lease was deleted, and the first to create it holds it.
                if not error.is_conflict and not error.not_found:
                    raise
            else:
                return True
        try:
            raw = await self.client.get(resources.LEASES, self.namespace, self.name, urgent=True)
        except ApiError as error:
            if not error.not_found:
                raise
            return await self._create()
        self._observed = self._observed.updated(raw, self.monotonic())
        is_own = self._observed.spec.holder_identity == self.identity
        if not is_own and self._observed.is_held(self.monotonic(), self.durations.lease):
            return False
        try:
            await self._write(self._body(self.identity))
        except ApiError as error:
            if not error.is_conflict:
                raise
            return False
        return True

    async def _observe_superseding(self) -> None:
        try:
            raw = await self.client.get(resources.LEASES, self.namespace, self.superseding, urgent=True)
        except ApiError as error:
            if error.is_forbidden and not self._logged_forbidden:
                self._logged_forbidden = True
                _log.warning("could not read Lease %s/%s: %s", self.namespace, self.superseding, error)
            if not error.is_forbidden and not error.not_found:
                raise
            self._superseding = _Observed()
        else:
            self._superseding = self._superseding.updated(raw, self.monotonic())

    def _is_superseded(self) -> bool:
        return self._superseding.is_held(self.monotonic(), self.durations.lease)

    async def _create(self) -> bool:
        self._observed = _Observed()
        body = msgspec.json.encode(self._body(self.identity))
        try:
            raw = await self.client.create(resources.LEASES, self.namespace, body, urgent=True)
        except ApiError as error:
            if error.already_exists:
                return False
            raise
        self._observed = self._observed.updated(raw, self.monotonic())
        return True

    async def _write(self, body: dict[str, Any]) -> None:
        encoded = msgspec.json.encode(body)
        raw = await self.client.replace(resources.LEASES, self.namespace, self.name, encoded, urgent=True)
        self._observed = self._observed.updated(raw, self.monotonic())

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
