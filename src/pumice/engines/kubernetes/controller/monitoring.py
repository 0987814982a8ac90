"""Health checks of the controller and its Prometheus metrics: `/healthz`, `/readyz` and `/metrics`.

Labels are bounded: never the name of a job or a pod. Volcano's names are kept where they mean the same. Its counters by
job name are not: a cluster that runs for a year would have a series for every job of that year.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.controller.event_recorder import EventRecorder
from pumice.model.vocabulary import Phase
from pumice.runtime.http_server import HttpServer

_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 2.0
CHECK_TIMEOUT: Final = 3.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_QUEUES = 1000
OTHER_QUEUES = "(other)"
# As Volcano's: thirty steps from 50 ms to a minute.
_LATENCIES = tuple(50 * (60000 / 50) ** (step / 29) for step in range(30))


class Metrics(Collector):
    def __init__(
        self, client: Client, cache: ClusterCache, recorder: EventRecorder, queues: Mapping[str, Sized]
    ) -> None:
        """`queues` are the work queues of the namespaces that this process leads."""
        self._client, self._cache, self._recorder, self._queues = client, cache, recorder, queues
        self.completed: Counter[str] = Counter()  # jobs, by Volcano queue
        self.failed: Counter[str] = Counter()
        self.passes = 0
        self.defects = 0
        self.registry = CollectorRegistry()
        self.pod_latency = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Time from the creation of a Job to the creation of its first pod",
            buckets=_LATENCIES,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(self)

    def count_transition(self, queue: str, before: str, after: str) -> None:
        """Count a job that has completed or failed."""
        counts = {str(Phase.COMPLETED): self.completed, str(Phase.FAILED): self.failed}.get(after)
        if before != after and counts is not None:
            # Where queues are not checked, users may invent one for each job.
            counts[queue if queue in counts or len(counts) < MAX_QUEUES else OTHER_QUEUES] += 1

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        # Volcano's counters have no suffix, which the type "counter" would add.
        for name, what, counts in (
            ("volcano_job_completed_phase_count", "Jobs that completed", self.completed),
            ("volcano_job_failed_phase_count", "Jobs that failed", self.failed),
        ):
            family = UnknownMetricFamily(name, what, labels=["queue_name"])
            for queue, count in sorted(counts.items()):
                family.add_metric([queue], count)
            yield family
        phases = Counter(item.job.status.state.phase for item in self._cache.jobs)
        jobs = GaugeMetricFamily("pumice_jobs", "Jobs by phase", labels=["phase"])
        for phase in Phase:
            jobs.add_metric([str(phase)], phases[phase])
        yield jobs
        for name, what, value in (
            ("pumice_pods", "Pods in the cache", len(self._cache.pods)),
            ("pumice_queue_depth", "Jobs that wait for a reconcile pass", sum(map(len, self._queues.values()))),
            ("pumice_writes_allowed", "Concurrent writes that are allowed now", self._client.writes.allowed),
            ("pumice_leader", "1 if this process is a leader", int(bool(self._queues))),
        ):
            yield GaugeMetricFamily(name, what, value=value)
        for name, what, count in (
            ("pumice_passes", "Reconcile passes", self.passes),
            ("pumice_defects", "Reconcile passes that ended in an unexpected error", self.defects),
            ("pumice_events_dropped", "Events that could not be recorded", self._recorder.dropped),
        ):
            yield CounterMetricFamily(name, what, value=count)


@dataclass(slots=True)
class ApiServerCheck:
    """Asks the API server every two seconds whether it is ready: a watch may be silent for minutes."""

    client: Client
    failure: str = ""  # why it does not serve requests, or empty

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_INTERVAL)

    async def check(self) -> None:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                await self.client.request("GET", "/readyz", urgent=True)
        except TimeoutError:
            self.failure = f"the API server has not answered for {CHECK_TIMEOUT:.0f} seconds"
        except ApiError as error:
            # Anything else is an answer, such as the refusal of a cluster that hides this path.
            self.failure = f"the API server is away: {' '.join(str(error).split())}" if error.is_transient else ""
        else:
            self.failure = ""


def health_app(not_ready: Callable[[], str]) -> web.Application:
    """`not_ready` returns what the controller waits for, or an empty string."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        reason = not_ready()
        return web.Response(status=503, text=reason + "\n") if reason else web.Response(text="ok\n")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def add_metrics(app: web.Application, metrics: Callable[[], bytes]) -> None:
    async def metrics_text(_request: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": CONTENT_TYPE})

    app.router.add_get("/metrics", metrics_text)


async def serve(app: web.Application, host: str, port: int, *, any_port: bool = False) -> tuple[HttpServer, int]:
    """Listen and return the port. With `any_port`, a taken port is replaced by a free one."""
    server = HttpServer(app)
    try:
        listening = await server.start(host, port)
    except OSError as error:
        if not any_port or error.errno != errno.EADDRINUSE:
            raise
        listening = await server.start(host, 0)
        _log.warning("port %d is taken; health and metrics are on %d", port, listening)
    return server, listening
