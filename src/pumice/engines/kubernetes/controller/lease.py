"""Leader election: of several controllers, the one that holds the Lease works, and the others wait.

A holder that cannot renew stops working well before anybody else may take over. Durations are measured on this
machine's own monotonic clock, from the moment a change of the Lease was seen: clocks of machines differ, and are set.
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
    lease: float = 15.0  # others wait this long after the last renewal they saw
    renew: float = 10.0  # the holder gives up after this long without one
    retry: float = 2.0


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A Lease as it was last seen, and since when it is known so."""

    version: str = ""
    since: float = 0.0
    spec: _Spec = field(default_factory=_Spec)

    def seen_again(self, lease: _Lease, now: float) -> _Sighting:
        version = lease.metadata.resource_version
        return _Sighting(version, self.since if version == self.version else now, lease.spec)

    def is_held(self, now: float, default: float) -> bool:
        """Whether somebody holds it who has renewed it not too long ago."""
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
    above: str = ""  # another Lease: while somebody holds that one, nobody needs this one
    is_leader: bool = False
    _seen: _Sighting = field(default_factory=_Sighting)
    _seen_above: _Sighting = field(default_factory=_Sighting)
    _blind: bool = False  # the one above may not be looked at, and that was told
    _renewed: float = 0.0  # when the last renewal that succeeded was begun

    @property
    def _holder(self) -> tuple[str, str]:
        """Who holds what we wait for."""
        if self._is_needless():
            return self._seen_above.spec.holder_identity or "", self.above
        return self._seen.spec.holder_identity or "", self.name

    async def acquire(self) -> None:
        """Returns when the Lease is ours."""
        told = ""
        while True:
            began = self.monotonic()
            try:
                if await self._try():
                    self.is_leader, self._renewed = True, began
                    return
                holder, name = self._holder
                if holder + name != told:
                    _log.info("waiting: %s holds Lease %s/%s", holder, self.namespace, name)
                    told = holder + name
            except ApiError as error:
                if str(error) != told:
                    hint = "" if error.is_transient else "; --lease-namespace names another place for it"
                    _log.warning("Lease %s/%s cannot be had: %s%s", self.namespace, self.name, error, hint)
                    told = str(error)
            await asyncio.sleep(self.durations.retry * _RANDOM.uniform(1 - _JITTER, 1 + _JITTER) / 2)

    async def hold(self) -> None:
        """Renew; returns when the Lease is lost."""
        while True:
            await asyncio.sleep(self.durations.retry)
            began = self.monotonic()
            try:
                async with asyncio.timeout(max(0.1, self._renewed + self.durations.renew - began)):
                    if not await self._try():
                        holder, name = self._holder
                        _log.error("Lease %s/%s was taken by %s", self.namespace, name, holder)
                        break
                # Others count from the moment when the server took the write, which may be long before its answer.
                self._renewed = began
            except (ApiError, TimeoutError) as error:
                _log.warning(
                    "Lease %s/%s could not be renewed: %s", self.namespace, self.name, str(error) or "no answer"
                )
                if self.monotonic() - self._renewed >= self.durations.renew:
                    _log.error("Lease %s/%s was not renewed in time", self.namespace, self.name)
                    break
        self.is_leader = False

    async def release(self) -> None:
        """Hand over at once: whoever waits need not wait for the Lease to run out."""
        if not self.is_leader:
            return
        self.is_leader = False
        try:
            await self._write(self._body(holder="", duration=1))
        except ApiError as error:
            _log.info("Lease %s/%s could not be handed over: %s", self.namespace, self.name, error)

    async def _try(self) -> bool:
        """Whether the Lease is ours after this."""
        if self.above:
            await self._look_above()
        return not self._is_needless() and await self._take()

    async def _take(self) -> bool:
        if self.is_leader:
            # Usually nobody else wrote, so that one call is enough.
            try:
                await self._write(self._body(self.identity))
            except ApiError as error:
                # Not found, if somebody has removed it: whoever makes it first has it.
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
        lease = msgspec.json.decode(raw, type=_Lease)
        self._note(lease)
        if lease.spec.holder_identity != self.identity and self._seen.is_held(self.monotonic(), self.durations.lease):
            return False
        try:
            await self._write(self._body(self.identity))
        except ApiError as error:
            if not error.is_conflict:
                raise
            return False
        return True

    async def _look_above(self) -> None:
        try:
            raw = await self.client.get(resources.LEASES, self.namespace, self.above, urgent=True)
        except ApiError as error:
            if error.is_forbidden and not self._blind:
                self._blind = True
                _log.warning("Lease %s/%s cannot be looked at: %s", self.namespace, self.above, error)
            if not error.is_forbidden and not error.not_found:
                raise
            self._seen_above = _Sighting()
        else:
            lease = msgspec.json.decode(raw, type=_Lease)
            self._seen_above = self._seen_above.seen_again(lease, self.monotonic())

    def _is_needless(self) -> bool:
        return self._seen_above.is_held(self.monotonic(), self.durations.lease)

    def _note(self, lease: _Lease) -> None:
        self._seen = self._seen.seen_again(lease, self.monotonic())

    async def _create(self) -> bool:
        self._seen = _Sighting()
        body = msgspec.json.encode(self._body(self.identity))
        try:
            raw = await self.client.create(resources.LEASES, self.namespace, body, urgent=True)
        except ApiError as error:
            if error.already_exists:
                return False
            raise
        self._note(msgspec.json.decode(raw, type=_Lease))
        return True

    async def _write(self, body: dict[str, Any]) -> None:
        raw = await self.client.replace(
            resources.LEASES, self.namespace, self.name, msgspec.json.encode(body), urgent=True
        )
        self._note(msgspec.json.decode(raw, type=_Lease))

    def _body(self, holder: str, duration: int | None = None) -> dict[str, Any]:
        moment, spec = to_microseconds(self.now()), self._seen.spec
        changes = holder != (spec.holder_identity or "")
        metadata = {"name": self.name, "namespace": self.namespace}
        if self._seen.version:
            metadata["resourceVersion"] = self._seen.version
        return {
            "apiVersion": resources.LEASES.api_version,
            "kind": resources.LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration or int(self.durations.lease),
                "renewTime": moment,
                "acquireTime": moment if changes else spec.acquire_time,
                "leaseTransitions": (spec.lease_transitions or 0) + (1 if changes and holder else 0),
            },
        }
