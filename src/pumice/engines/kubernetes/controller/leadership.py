"""Leader election: one Lease per served namespace, or one Lease for the whole cluster.

So controllers whose namespaces overlap never serve the same job, and each serves the namespaces that the others leave.
A controller of some namespaces yields to a controller of the whole cluster.
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

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES
from pumice.engines.kubernetes.controller.lease import Durations, LeaseLock
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, run_with_timeout

LEASE: Final = "pumice-controller"
INSTALL_NAMESPACE: Final = "pumice-system"
# Without an installation: a namespace that every cluster has.
FALLBACK_NAMESPACE: Final = "kube-system"
SHUTDOWN_SECONDS: Final = 1.0  # for sending the last events, and for releasing a Lease

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LeaderElector:
    client: Client
    now: Callable[[], dt.datetime]
    lease_namespace: str = ""  # empty: that of an installation, if there is one
    monotonic: Callable[[], float] = time.monotonic
    durations: Durations = field(default_factory=Durations)
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}")

    async def run(self, namespaces: Sequence[str], serve: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Serve each namespace (none given: the whole cluster) while its Lease is held, until cancelled."""
        lease_namespace = self.lease_namespace or await self._find_lease_namespace()
        async with asyncio.TaskGroup() as tasks:
            for namespace in namespaces or (ALL_NAMESPACES,):
                lock = self._lock(lease_namespace, namespace)
                tasks.create_task(self._lead(lock, namespace, serve), name=f"lead {namespace}")

    def _lock(self, lease_namespace: str, namespace: str) -> LeaseLock:
        name, superseding = (f"{LEASE}-{namespace}", LEASE) if namespace else (LEASE, "")
        return LeaseLock(
            self.client,
            lease_namespace,
            name,
            self.identity,
            self.now,
            self.monotonic,
            self.durations,
            superseding=superseding,
        )

    async def _lead(self, lock: LeaseLock, namespace: str, serve: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        try:
            while True:
                await lock.acquire()
                _log.info("leading%s", f" namespace {namespace}" if namespace else "")
                await run_until_first_ends(serve(namespace), lock.hold())
        finally:
            await run_with_timeout(SHUTDOWN_SECONDS, lock.release())

    async def _find_lease_namespace(self) -> str:
        """Return the namespace of the installation, if there is one."""
        try:
            await self.client.get(resources.LEASES, INSTALL_NAMESPACE, LEASE, attempts=None)
        except ApiError as error:
            if error.not_found and not await self._namespace_exists(INSTALL_NAMESPACE):
                return FALLBACK_NAMESPACE
        return INSTALL_NAMESPACE

    async def _namespace_exists(self, name: str) -> bool:
        """Find out by a dry run that creates a Lease: the controller may not read namespaces."""
        body = b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"%s"}}' % LEASE.encode()
        try:
            await self.client.create(resources.LEASES, name, body, dry_run=True, attempts=None)
        except ApiError as error:
            return not error.not_found
        return True
