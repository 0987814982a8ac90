"""The composition root of the controller: builds its parts, and runs them until it is stopped.

Only the leader of a namespace reconciles its jobs (`leadership`). Standbys watch the cluster too, so that their cache
is complete when they take over.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp import web
from msgspec import Struct, field

from pumice.admission.context import Context
from pumice.admission.defaults import with_defaults, with_first_min_available
from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.discovery import discover
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES, ClusterCache
from pumice.engines.kubernetes.controller.engine import KubernetesEngine
from pumice.engines.kubernetes.controller.event_recorder import EventRecorder
from pumice.engines.kubernetes.controller.leadership import SHUTDOWN_SECONDS, Durations, LeaderElector
from pumice.engines.kubernetes.controller.log_tail_storage import LogTailStorage
from pumice.engines.kubernetes.controller.monitoring import ApiServerCheck, Metrics, add_metrics, health_app, serve
from pumice.engines.kubernetes.controller.owned_objects import OwnedObjectManager
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, run_with_timeout
from pumice.engines.kubernetes.gangs import choice
from pumice.engines.kubernetes.gangs.pod_groups import PodGroupManager
from pumice.model.shape import Schema
from pumice.model.snapshot import JobKey
from pumice.model.vocabulary import COSCHEDULING
from pumice.plugins.registry import Registry
from pumice.runtime.loop import Loop
from pumice.runtime.queue import KeyQueue
from pumice.runtime.runner import Runner

_REST: Final = 10.0
# Threads share one interpreter with the event loop: each that computes delays the calls of all other jobs.
_LARGE_PASSES: Final = 2
# Counts in the status of a job may be so late. Kubernetes' own controller of Jobs waits as long.
_STATUS_INTERVAL: Final = dt.timedelta(seconds=1)
_TEXT_INTERVAL: Final = dt.timedelta(seconds=10)

_log = logging.getLogger(__name__)


class Settings(Struct, frozen=True):
    gang: str = choice.AUTO
    namespaces: Sequence[str] = ()
    leader_elect: bool = True
    listen: tuple[str, int] = ("127.0.0.1", 8081)
    any_port: bool = False  # use a free port if that one is taken
    metrics_listen: tuple[str, int] | None = None  # for /metrics alone
    workers: int = 32
    parallel_writes: int = 64
    scheduler: str = COSCHEDULING.scheduler  # of coscheduling
    keep_log_tails: bool = False  # of the first failed pod of each attempt
    durations: Durations = field(default_factory=Durations)


class Controller:
    def __init__(  # noqa: PLR0913 - everything that a test replaces
        self,
        client: Client,
        settings: Settings,
        registry: Registry,
        kubernetes: Schema,
        now: Callable[[], dt.datetime],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client, self.settings, self.now, self.monotonic = client, settings, now, monotonic
        self.registry, self.kubernetes = registry, kubernetes
        # The queues of the namespaces that this process leads, or one for ALL_NAMESPACES.
        self.queues: dict[str, KeyQueue] = {}
        self.cache = ClusterCache(
            client,
            kubernetes,
            settings.namespaces,
            self._enqueue,
            lambda job: with_defaults(with_first_min_available(job), registry),
        )
        self.secrets = SecretManager(client, self._enqueue, monotonic)
        self.owned_objects = OwnedObjectManager(client, self.cache, self.secrets)
        self.recorder = EventRecorder(client, now)
        self.metrics = Metrics(client, self.cache, self.recorder, self.queues)
        self.elector = LeaderElector(client, now, monotonic, settings.durations)
        self.api_server = ApiServerCheck(client)
        self._threads = ThreadPoolExecutor(_LARGE_PASSES, thread_name_prefix="pass")
        self.port = 0  # of health and metrics, once it listens
        self._waiting_for = "the API server has not answered yet"

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises GangError if the cluster lacks the requested gang provider."""
        host, port = self.settings.listen
        # Before the first request, so that /readyz can say that the API server does not answer.
        app, apart = health_app(self._not_ready), self.settings.metrics_listen
        metrics_app = web.Application() if apart else app
        add_metrics(metrics_app, self.metrics.text)
        async with contextlib.AsyncExitStack() as servers:
            server, self.port = await serve(app, host, port, any_port=self.settings.any_port)
            servers.push_async_callback(server.stop)
            _log.info("health%s: http://%s:%d", "" if apart else " and metrics", host, self.port)
            if apart:
                server, metrics_port = await serve(metrics_app, *apart)
                servers.push_async_callback(server.stop)
                _log.info("metrics: http://%s:%d", apart[0], metrics_port)
            await run_until_first_ends(stop.wait(), self._run())

    async def _run(self) -> None:
        """Run every part; the first that fails ends all."""
        name, resource = choice.choose(self.settings.gang, await self._discover())
        self._waiting_for = ""
        _log.info("gang provider: %s%s", name, f" ({resource.identity})" if resource is not None else "")
        gang = choice.make_provider(name, resource, self.settings.scheduler)
        log_tails = LogTailStorage(self.client, self.cache, self.now, self.monotonic)
        engine = KubernetesEngine(
            client=self.client,
            cache=self.cache,
            owned_objects=self.owned_objects,
            gang=gang,
            pod_groups=PodGroupManager(self.client, self.cache, resource, gang) if resource is not None else None,
            recorder=self.recorder,
            metrics=self.metrics,
            now=self.now,
            log_tails=log_tails if self.settings.keep_log_tails else None,
        )
        context = Context(self.registry, self.kubernetes, queue_rules=gang.name == "volcano")
        lead = asyncio.create_task(self._lead(engine, context))
        parts = (self.cache.run(), self.secrets.run(), self.recorder.run(), self.api_server.run())
        tasks = [lead, *map(asyncio.create_task, parts)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            lead.cancel()
            await asyncio.gather(lead, return_exceptions=True)
            await run_with_timeout(2 * SHUTDOWN_SECONDS, self.recorder.flush(SHUTDOWN_SECONDS))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _discover(self) -> frozenset[str]:
        """Return what the cluster serves, once it serves Jobs."""
        while True:
            try:
                offered = await discover(self.client)
                if {resources.JOBS.identity, resources.COMMANDS.identity} <= offered:
                    return offered
                reason = "the cluster has no Job CRD: `pumice install --crds-only | kubectl apply --server-side -f -`"
            except ApiError as error:
                if not error.is_transient:
                    raise
                reason = f"the API server cannot be reached: {error}"
            if reason != self._waiting_for:
                _log.warning("waiting: %s", reason)
                self._waiting_for = reason
            await asyncio.sleep(2)

    async def _lead(self, engine: KubernetesEngine, context: Context) -> None:
        """Serve jobs while this process is the leader."""
        await self.cache.synced()
        # A thread with a large job gives way to the event loop after so long: by default 5 ms, several times a pass.
        sys.setswitchinterval(0.001)
        _log.info("watching: %d jobs, %d pods", len(self.cache.jobs), len(self.cache.pods))
        if not self.settings.leader_elect:
            await self._serve(engine, context, ALL_NAMESPACES)
        await self.elector.run(self.settings.namespaces, lambda namespace: self._serve(engine, context, namespace))

    async def _serve(self, engine: KubernetesEngine, context: Context, namespace: str) -> None:
        """Reconcile the jobs of a namespace until cancelled, each of them once at the start."""
        loop = Loop(
            engine,
            context,
            self.now,
            parallel=self.settings.parallel_writes,
            rest=_REST,
            status_interval=_STATUS_INTERVAL,
            text_interval=_TEXT_INTERVAL,
            threads=self._threads,
        )
        for job in self.cache.jobs:
            if namespace in (ALL_NAMESPACES, job.namespace):
                loop.queue.add(job.key)
        self.queues[namespace] = loop.queue
        try:
            await Runner(loop, workers=self.settings.workers, on_defect=self._log_defect).run()
        finally:
            del self.queues[namespace]
            # The next leader may change the owned objects.
            self.owned_objects.clear(namespace)

    def _enqueue(self, key: JobKey) -> None:
        """Ignore changes while not leading; otherwise a standby's queue grows without bound."""
        for namespace in (key.namespace, ALL_NAMESPACES):
            if namespace in self.queues:
                self.queues[namespace].add(key)

    def _log_defect(self, key: JobKey, error: Exception) -> None:
        self.metrics.defects += 1
        _log.error("job %s: unexpected error; retrying", key, exc_info=error, extra={"job": key})

    def _not_ready(self) -> str:
        """Return what must happen before jobs can be served, or an empty string."""
        if failure := self._waiting_for or self.api_server.failure or self.elector.failure:
            return failure
        if unsynced := self.cache.unsynced():
            return f"not yet listed: {', '.join(unsynced)}"
        refused = self.cache.refused()
        return f"cannot be watched: {', '.join(refused)}; the log says why" if refused else ""
