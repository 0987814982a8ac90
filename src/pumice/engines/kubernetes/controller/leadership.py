"""Who serves which jobs: for each namespace the one that holds its Lease, or for all of them the one that holds theirs.

Controllers whose namespaces overlap so never serve the same job, and each serves what the others leave. Whoever serves
some namespaces stands aside for whoever serves them all.
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
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, within

LEASE: Final = "pumice-controller"
INSTALLED_IN: Final = "pumice-system"
# Where it is not installed: a namespace that every cluster has.
ELSE_IN: Final = "kube-system"
LAST_WORDS: Final = 1.0  # seconds for events that are still to be told, and for handing over

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
        """Serve each of the namespaces (none: all at once) whenever its Lease is ours, until it is cancelled."""
        home = self.lease_namespace or await self._home()
        async with asyncio.TaskGroup() as tasks:
            for place in namespaces or (ALL_NAMESPACES,):
                tasks.create_task(self._strive(self._election(home, place), place, serve), name=f"lead {place}")

    def _election(self, home: str, place: str) -> LeaseLock:
        name, above = (f"{LEASE}-{place}", LEASE) if place else (LEASE, "")
        return LeaseLock(self.client, home, name, self.identity, self.now, self.monotonic, self.durations, above=above)

    async def _strive(self, election: LeaseLock, place: str, serve: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        try:
            while True:
                await election.acquire()
                _log.info("leading%s", f" namespace {place}" if place else "")
                await run_until_first_ends(serve(place), election.hold())
        finally:
            await within(LAST_WORDS, election.release())

    async def _home(self) -> str:
        """Where Leases can be made: the namespace of an installation, if there is one."""
        try:
            await self.client.get(resources.LEASES, INSTALLED_IN, LEASE, attempts=None)
        except ApiError as error:
            if error.not_found and not await self._is_namespace(INSTALLED_IN):
                return ELSE_IN
        return INSTALLED_IN

    async def _is_namespace(self, name: str) -> bool:
        """Whether it exists, as far as we may know: a Lease that is only tried tells it to those who may make one."""
        body = b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"%s"}}' % LEASE.encode()
        try:
            await self.client.create(resources.LEASES, name, body, dry_run=True, attempts=None)
        except ApiError as error:
            return not error.not_found
        return True
