"""The controller: everything put together, and the one that works is the one that holds the Lease (`leading`).

Those that wait watch the cluster, too, so that whoever takes over knows everything already.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pumice.admission.context import Context
from pumice.admission.defaults import with_defaults
from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.discovery import has_resource
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES, ClusterCache
from pumice.engines.kubernetes.controller.engine import KubernetesEngine
from pumice.engines.kubernetes.controller.event_recorder import EventRecorder
from pumice.engines.kubernetes.controller.health import Health, serve
from pumice.engines.kubernetes.controller.leadership import LAST_WORDS, LeaderElector
from pumice.engines.kubernetes.controller.lease import Durations
from pumice.engines.kubernetes.controller.metrics import Metrics, Numbers
from pumice.engines.kubernetes.controller.owned_objects import OwnedObjectManager
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, within
from pumice.engines.kubernetes.gangs import choice
from pumice.engines.kubernetes.gangs.pod_groups import PodGroupManager
from pumice.model.shape import Schema
from pumice.model.snapshot import COSCHEDULING, JobKey
from pumice.plugins.registry import Registry
from pumice.runtime.loop import Loop
from pumice.runtime.queue import KeyQueue
from pumice.runtime.runner import Runner

_REST: Final = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    gang: str = choice.AUTO
    namespaces: Sequence[str] = ()
    leader_elect: bool = True
    lease_namespace: str = ""
    listen: tuple[str, int] = ("127.0.0.1", 8081)
    any_port: bool = False  # take another port if that one is taken
    workers: int = 32
    parallel_writes: int = 64
    scheduler: str = COSCHEDULING.scheduler  # of coscheduling
    durations: Durations = field(default_factory=Durations)


@dataclass(slots=True)
class Controller:
    client: Client
    settings: Settings
    registry: Registry
    kubernetes: Schema
    now: Callable[[], dt.datetime]
    monotonic: Callable[[], float] = time.monotonic
    numbers: Numbers = field(default_factory=Numbers)
    port: int = 0
    _cache: ClusterCache | None = None
    _text: Callable[[], bytes] = bytes  # of /metrics
    _problem: str = "the API server has not answered yet"
    # Of the namespaces that are served now; all of them under the empty name.
    _queues: dict[str, KeyQueue] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. GangError if the cluster lacks what was asked for."""
        host, port = self.settings.listen
        # Before anything is asked of a server that may be away: whoever looks after us wants to know why nothing moves.
        server, self.port = await serve(self._health().app(), host, port, any_port=self.settings.any_port)
        _log.info("health and metrics: http://%s:%d", host, self.port)
        try:
            await run_until_first_ends(stop.wait(), self._control())
        finally:
            await server.cleanup()

    async def _control(self) -> None:
        """Everything that needs the cluster; a part that fails ends it all."""
        name, resource = choice.choose(self.settings.gang, await self._offered())
        _log.info("gang provider: %s%s", name, f" ({resource.identity})" if resource is not None else "")
        cache = self._cache = ClusterCache(
            self.client,
            self.kubernetes,
            self.settings.namespaces,
            self._enqueue,
            lambda job: with_defaults(job, self.registry),
        )
        gang = choice.make_provider(name, resource, self.settings.scheduler)
        secrets = SecretManager(self.client, self._enqueue, self.monotonic)
        teller = EventRecorder(self.client, self.now)
        engine = KubernetesEngine(
            client=self.client,
            cache=cache,
            companions=OwnedObjectManager(self.client, cache, secrets),
            gang=gang,
            pod_groups=PodGroupManager(self.client, cache, resource, gang) if resource is not None else None,
            teller=teller,
            numbers=self.numbers,
            now=self.now,
        )
        self._text = self._metrics(cache, engine)
        context = Context(self.registry, self.kubernetes, queue_rules=name == "volcano")
        working = asyncio.create_task(self._work(engine, context))
        tasks = [working, *(asyncio.create_task(part) for part in (cache.run(), secrets.run(), teller.run()))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await within(2 * LAST_WORDS, teller.drain(LAST_WORDS))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _health(self) -> Health:
        return Health(lambda: "", self._awaited, self._numbers_now)

    def _numbers_now(self) -> bytes:
        return self._text()

    def _awaited(self) -> str:
        """What must come before jobs can be served."""
        if self._cache is None:
            return self._problem
        if missing := self._cache.unsynced():
            return f"not yet listed: {', '.join(missing)}"
        refused = self._cache.refused()
        return f"cannot be watched: {', '.join(refused)}; the log says why" if refused else ""

    async def _work(self, engine: KubernetesEngine, context: Context) -> None:
        """Serve jobs whenever we are the leader."""
        await engine.cache.synced()
        # What is known now stays; looking through it again and again for garbage is in vain.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        _log.info("watching: %d jobs, %d pods", len(engine.cache.jobs), len(engine.cache.pods))
        if not self.settings.leader_elect:
            await self._serve(engine, context, ALL_NAMESPACES)
        settings = self.settings
        leading = LeaderElector(self.client, self.now, settings.lease_namespace, self.monotonic, settings.durations)
        await leading.run(settings.namespaces, lambda place: self._serve(engine, context, place))

    async def _serve(self, engine: KubernetesEngine, context: Context, place: str) -> None:
        loop = Loop(engine, context, self.now, parallel=self.settings.parallel_writes, rest=_REST)
        for seen in engine.cache.jobs:
            if place in (ALL_NAMESPACES, seen.namespace):
                loop.queue.add(seen.key)
        self._queues[place] = loop.queue
        self.numbers.is_leader = True
        try:
            await Runner(loop, workers=self.settings.workers, on_defect=self._defect).run()
        finally:
            del self._queues[place]
            self.numbers.is_leader = bool(self._queues)
            # Whoever leads next changes what we know, and when it is our turn again, we look anew.
            engine.companions.start_over(place)

    def _enqueue(self, key: JobKey) -> None:
        """Ignore changes while not leading; otherwise a standby's queue grows without bound."""
        for namespace in (key.namespace, ALL_NAMESPACES):
            if namespace in self._queues:
                self._queues[namespace].add(key)

    def _defect(self, key: JobKey, error: Exception) -> None:
        self.numbers.defects += 1
        _log.error("job %s: an unexpected error; it is tried again", key, exc_info=error, extra={"job": key})

    def _metrics(self, cache: ClusterCache, engine: KubernetesEngine) -> Callable[[], bytes]:
        metrics = Metrics(self.numbers, cache)

        def text() -> bytes:
            self.numbers.events_dropped = engine.teller.dropped
            self.numbers.waiting = sum(map(len, self._queues.values()))
            self.numbers.writes_allowed = self.client.writes.allowed
            return metrics.text()

        return text

    async def _offered(self) -> frozenset[str]:
        """What the cluster serves, once it serves Jobs at all."""
        while True:
            try:
                offered = await self.client.discover()
                if has_resource(offered, resources.JOBS) and has_resource(offered, resources.COMMANDS):
                    return offered
                problem = "the cluster knows no Jobs: `pumice install --crds-only | kubectl apply --server-side -f -`"
            except ApiError as error:
                if not error.is_transient:
                    raise
                problem = f"the API server cannot be reached: {error}"
            if problem != self._problem:
                _log.warning("waiting: %s", problem)
                self._problem = problem
            await asyncio.sleep(2)
