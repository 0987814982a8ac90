"""Leader election: one Lease in kube-system for the whole cluster, or one for each served namespace.

So controllers whose namespaces overlap never serve the same job, and each serves the namespaces that the others leave.
A controller for the whole cluster takes precedence over those for single namespaces, which give up their Leases; it
waits until they have. Each side first writes its own Lease and then reads those of the other, so that one of two that
start at the same moment sees the other.

Durations are measured on the local monotonic clock, from the moment a change of the Lease was seen: the clocks of
machines differ, and are set.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import random
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import ObjectMetadata
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, run_with_timeout
from pumice.engines.kubernetes.install import names
from pumice.model.units import to_microseconds

SHUTDOWN_SECONDS: Final = 1.0  # for sending the last events
# A busy API server needs more than a moment, and a Lease that is not released keeps others waiting for 15 seconds.
_RELEASE_SECONDS: Final = 5.0
_JITTER: Final = 0.2
_RANDOM: Final = random.Random()  # noqa: S311 - only keeps two candidates out of step

_log = logging.getLogger(__name__)


class _Spec(Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Struct, frozen=True):
    metadata: ObjectMetadata
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


@dataclass(slots=True)
class LeaderLock:
    lease: LeaseLock
    # The Lease for the whole cluster, of a lock for one namespace: while it is held, this lock stays free.
    superseding: LeaseLock | None = None
    is_leader: bool = False
    failure: str = ""  # why it cannot be acquired, unless another controller holds it
    _blocker: tuple[str, str] = ("", "")  # another holder, and the Lease that it holds
    _renewed: float = 0.0  # when the last successful renewal began
    _namespaced: dict[str, Observed] = field(default_factory=dict)  # Leases of controllers for single namespaces

    async def acquire(self) -> None:
        """Return when this process is the leader. Raises ApiError without the right to the Lease."""
        logged = ""
        while True:
            began = self.lease.monotonic()
            try:
                is_acquired = await self._try()
                self.failure = ""
                if is_acquired:
                    self.is_leader, self._renewed = True, began
                    return
                holder, name = self._blocker
                message, level = f"waiting: {holder} holds Lease {name}", logging.INFO
            except ApiError as error:
                await self.release()
                self.failure = f"could not acquire Lease {self.lease}: {error}"
                if error.is_forbidden:
                    raise ApiError(error.status, error.reason, f"{self.failure}; {self._rights()}") from error
                message, level = self.failure, logging.WARNING
            if message != logged:
                logged = message
                _log.log(level, "%s", message)
            await asyncio.sleep(self.lease.durations.retry * _RANDOM.uniform(1 - _JITTER, 1 + _JITTER) / 2)

    async def hold(self) -> None:
        """Renew the Lease; return when it is lost."""
        durations = self.lease.durations
        while True:
            await asyncio.sleep(durations.retry)
            began = self.lease.monotonic()
            try:
                async with asyncio.timeout(max(0.1, self._renewed + durations.renew - began)):
                    if not await self._take() or await self._is_superseded():
                        holder, name = self._blocker
                        _log.error("Lease %s was taken by %s", name, holder)
                        break
                # Others count from the moment when the server stored the write, which may be long before its response.
                self._renewed = began
            except (ApiError, TimeoutError) as error:
                _log.warning("could not renew Lease %s: %s", self.lease, str(error) or "no response")
                if self.lease.monotonic() - self._renewed >= durations.renew:
                    _log.error("Lease %s was not renewed in time", self.lease)
                    break
        self.is_leader = False

    async def release(self) -> None:
        """Give the Lease up, so that others need not wait until it expires."""
        self.is_leader = False
        await self.lease.release()

    async def _try(self) -> bool:
        """Acquire or renew the Lease, unless another controller has precedence."""
        if await self._is_superseded() or not await self._take() or await self._is_superseded():
            await self.release()
            return False
        return self.superseding is not None or not await self._has_predecessors()

    async def _take(self) -> bool:
        is_taken = await self.lease.take()
        # Without a holder, another candidate was faster.
        self._blocker = (self.lease.holder or "another controller", str(self.lease))
        return is_taken

    async def _is_superseded(self) -> bool:
        if self.superseding is None:
            return False
        await self.superseding.observe()
        self._blocker = (self.superseding.holder, str(self.superseding))
        return bool(self.superseding.holder)

    async def _has_predecessors(self) -> bool:
        """Whether controllers for single namespaces still work; they notice this lock at their next renewal."""
        now, lease = self.lease.monotonic(), self.lease
        async for items, _ in lease.client.list_pages(resources.LEASES, names.LEASE_NAMESPACE):
            for raw in items:
                seen = Observed().updated(raw, now)
                if seen.name.startswith(f"{lease.name}-"):
                    self._namespaced[seen.name] = self._namespaced.get(seen.name, seen).updated(raw, now)
        for name, observed in self._namespaced.items():
            holder = observed.holder(now, lease.durations.lease)
            if holder not in ("", lease.identity):
                self._blocker = (holder, f"{names.LEASE_NAMESPACE}/{name}")
                return True
        self._namespaced.clear()
        return False

    def _rights(self) -> str:
        others = "create and list on Leases"
        if self.superseding is not None:
            others = f"create on Leases, get on Lease {self.superseding.name}"
        return (
            f"grant get and update on Lease {self.lease.name}, {others} in namespace {names.LEASE_NAMESPACE} "
            "(docs/guides/permissions.md), or use --no-leader-elect if there is no other controller"
        )


@dataclass(slots=True)
class LeaderElector:
    client: Client
    now: Callable[[], dt.datetime]
    monotonic: Callable[[], float] = time.monotonic
    durations: Durations = field(default_factory=Durations)
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}")
    locks: dict[str, LeaderLock] = field(default_factory=dict)

    async def run(self, namespaces: Sequence[str], serve: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Serve each namespace (none given: the whole cluster) while its Lease is held, until cancelled."""
        for namespace in namespaces:
            self.locks[namespace] = LeaderLock(self._lease(f"{names.LEASE}-{namespace}"), self._lease(names.LEASE))
        if not namespaces:
            self.locks[ALL_NAMESPACES] = LeaderLock(self._lease(names.LEASE))
        await run_until_first_ends(*(self._lead(lock, scope, serve) for scope, lock in self.locks.items()))

    @property
    def failure(self) -> str:
        """Why this process could not become the leader, also if there is no other; or an empty string."""
        return next((lock.failure for lock in self.locks.values() if lock.failure), "")

    def _lease(self, name: str) -> LeaseLock:
        return LeaseLock(self.client, name, self.identity, self.now, self.monotonic, self.durations)

    async def _lead(self, lock: LeaderLock, namespace: str, serve: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        try:
            while True:
                await lock.acquire()
                _log.info("leading%s", f" namespace {namespace}" if namespace else "")
                await run_until_first_ends(serve(namespace), lock.hold())
                await run_with_timeout(_RELEASE_SECONDS, lock.release())
        finally:
            await run_with_timeout(_RELEASE_SECONDS, lock.release())
