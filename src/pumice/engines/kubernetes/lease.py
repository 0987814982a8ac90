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

from pumice.engines.kubernetes import resources
from pumice.engines.kubernetes.client import Client
from pumice.engines.kubernetes.errors import ApiError
from pumice.model.times import to_microseconds

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


@dataclass(slots=True)
class Election:
    client: Client
    namespace: str
    name: str
    identity: str
    now: Callable[[], dt.datetime]
    monotonic: Callable[[], float]
    durations: Durations = field(default_factory=Durations)
    is_leader: bool = False
    _seen: tuple[str, float] = ("", 0.0)  # the version of the Lease, and since when it is known
    _renewed: float = 0.0  # when the last renewal that succeeded was begun
    _version: str = ""
    _spec: _Spec = field(default_factory=_Spec)

    async def acquire(self) -> None:
        """Returns when the Lease is ours."""
        told = ""
        while True:
            began = self.monotonic()
            try:
                if await self._try():
                    self.is_leader, self._renewed = True, began
                    return
                holder = self._spec.holder_identity or ""
                if holder != told:
                    _log.info("waiting: %s holds Lease %s/%s", holder, self.namespace, self.name)
                    told = holder
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
                        _log.error("Lease %s/%s was taken by %s", self.namespace, self.name, self._spec.holder_identity)
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
            lease = msgspec.json.decode(await self.client.get(resources.LEASES, self.namespace, self.name), type=_Lease)
        except ApiError as error:
            if not error.not_found:
                raise
            return await self._create()
        self._note(lease)
        if self._is_held_by_other():
            return False
        try:
            await self._write(self._body(self.identity))
        except ApiError as error:
            if not error.is_conflict:
                raise
            return False
        return True

    def _note(self, lease: _Lease) -> None:
        if lease.metadata.resource_version != self._seen[0]:
            self._seen = (lease.metadata.resource_version, self.monotonic())
        self._version, self._spec = lease.metadata.resource_version, lease.spec

    def _is_held_by_other(self) -> bool:
        holder = self._spec.holder_identity
        if not holder or holder == self.identity:
            return False
        duration = self._spec.lease_duration_seconds or self.durations.lease
        return self.monotonic() - self._seen[1] < duration

    async def _create(self) -> bool:
        self._version, self._spec = "", _Spec()
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
        moment = to_microseconds(self.now())
        changes = holder != (self._spec.holder_identity or "")
        metadata = {"name": self.name, "namespace": self.namespace}
        if self._version:
            metadata["resourceVersion"] = self._version
        return {
            "apiVersion": resources.LEASES.api_version,
            "kind": resources.LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration or int(self.durations.lease),
                "renewTime": moment,
                "acquireTime": moment if changes else self._spec.acquire_time,
                "leaseTransitions": (self._spec.lease_transitions or 0) + (1 if changes and holder else 0),
            },
        }
