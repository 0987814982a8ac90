"""What the webhook knows about its cluster: the queues, and the fields that its definition of Job drops."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.admission.context import Context, Queue
from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.discovery import discover
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.cache.informer import Informer
from pumice.engines.kubernetes.cache.store import Identity
from pumice.engines.kubernetes.gangs.choice import GangError, choose
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.crds import dropped_fields
from pumice.model.shape import Schema
from pumice.plugins.registry import Registry

_log = logging.getLogger(__name__)

INTERVAL: Final = 30.0


class _Queue(Identity, frozen=True):
    parent: str
    state: str


def _decode_queue(raw: msgspec.Raw) -> _Queue:
    queue = msgspec.json.decode(raw)
    meta, spec, status = queue["metadata"], queue.get("spec") or {}, queue.get("status") or {}
    identity = ("", meta["name"], meta.get("uid", ""), meta.get("resourceVersion", ""))
    return _Queue(*identity, spec.get("parent", ""), status.get("state", ""))


@dataclass(slots=True)
class ClusterFacts:
    client: Client
    gang: str
    registry: Registry
    kubernetes: Schema
    dropped: tuple[str, ...] = ()
    _queues: Informer[_Queue] | None = None
    _warnings: dict[str, str] = field(default_factory=dict)

    def context(self) -> Context:
        # Without any, Volcano has not started yet.
        known = self._queues.store.items.values() if self._queues is not None and self._queues.synced.is_set() else ()
        children = Counter(queue.parent for queue in known)
        queues = {queue.name: Queue(queue.state, children[queue.name]) for queue in known}
        return Context(self.registry, self.kubernetes, queues=queues or None, queue_rules=self._queues is not None)

    async def run(self, interval: float = INTERVAL) -> None:
        """Refresh at intervals until cancelled: definitions and schedulers change while the webhook runs."""
        async with asyncio.TaskGroup() as tasks:
            watching: asyncio.Task[None] | None = None
            while True:
                await self.refresh()
                if self._queues is not None and watching is None:
                    watching = tasks.create_task(self._queues.run())
                elif self._queues is None and watching is not None:
                    watching.cancel()
                    watching = None
                await asyncio.sleep(interval)

    async def refresh(self) -> None:
        self.dropped = await self._dropped()
        try:
            provider, _ = choose(self.gang, offered := await discover(self.client))
        except (ApiError, GangError) as error:
            self._warn("gang provider", str(error))
            return
        if provider != "volcano" or resources.VOLCANO_QUEUES.identity not in offered:
            self._queues = None
        elif self._queues is None:
            self._queues = Informer(
                self.client,
                resources.VOLCANO_QUEUES,
                decode=_decode_queue,
                changed=lambda _before, _after: None,
            )

    async def _dropped(self) -> tuple[str, ...]:
        try:
            raw = await self.client.get(resources.CRDS, None, names.JOBS_CRD)
        except ApiError as error:
            self._warn("definition of Job", str(error))
            return ()
        dropped = dropped_fields(msgspec.json.decode(raw))
        listed = ", ".join(dropped)
        self._warn(
            "definition of Job", f"drops {listed}; apply the output of pumice install --crds-only" if listed else ""
        )
        return dropped

    def _warn(self, subject: str, message: str) -> None:
        """Log a message when it changes, not at each refresh."""
        if message and self._warnings.get(subject) != message:
            _log.warning("%s: %s", subject, message)
        self._warnings[subject] = message
