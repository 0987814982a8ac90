"""Leader election: one Lease per served namespace, or one Lease for the whole cluster.

So controllers whose namespaces overlap never serve the same job, and each serves the namespaces that the others leave.
A controller of some namespaces yields to a controller of the whole cluster. The Lease is in kube-system, which every
cluster has, and beside it in `--lease-namespace` and in pumice-system: there earlier versions have theirs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES
from pumice.engines.kubernetes.controller.leader_lock import LeaderLock
from pumice.engines.kubernetes.controller.lease import Durations, LeaseLock
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, run_with_timeout
from pumice.engines.kubernetes.install import names

SHUTDOWN_SECONDS: Final = 1.0  # for sending the last events, and for releasing a Lease

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LeaderElector:
    client: Client
    now: Callable[[], dt.datetime]
    lease_namespace: str = ""
    monotonic: Callable[[], float] = time.monotonic
    durations: Durations = field(default_factory=Durations)
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}")
    locks: dict[str, LeaderLock] = field(default_factory=dict)

    async def run(self, namespaces: Sequence[str], serve: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Serve each namespace (none given: the whole cluster) while its Leases are held, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for namespace in namespaces or (ALL_NAMESPACES,):
                lock = self._lock(namespace)
                self.locks[namespace] = lock
                tasks.create_task(self._lead(lock, namespace, serve), name=f"lead {namespace}")

    @property
    def failure(self) -> str:
        """Why this process could not become the leader, also if there is no other; or an empty string."""
        return next((lock.failure for lock in self.locks.values() if lock.failure), "")

    def _lock(self, namespace: str) -> LeaderLock:
        if not namespace:
            return LeaderLock(self._leases(names.LEASE))
        return LeaderLock(self._leases(f"{names.LEASE}-{namespace}"), superseding=self._leases(names.LEASE))

    def _leases(self, name: str) -> list[LeaseLock]:
        """Return a Lease for each namespace where another controller may have it, always in the same order."""
        spaces = (names.LEASE_NAMESPACE, names.NAMESPACE, self.lease_namespace or names.LEASE_NAMESPACE)
        return [
            LeaseLock(
                self.client,
                namespace,
                name,
                self.identity,
                self.now,
                self.monotonic,
                self.durations,
            )
            for namespace in dict.fromkeys(spaces)
        ]

    async def _lead(self, lock: LeaderLock, namespace: str, serve: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        try:
            while True:
                await lock.acquire()
                _log.info("leading%s", f" namespace {namespace}" if namespace else "")
                await run_until_first_ends(serve(namespace), lock.hold())
                await run_with_timeout(SHUTDOWN_SECONDS, lock.release())
        finally:
            await run_with_timeout(SHUTDOWN_SECONDS, lock.release())
