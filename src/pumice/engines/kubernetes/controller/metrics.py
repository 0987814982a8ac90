"""The Prometheus metrics of the controller. Labels are bounded: never the name of a job or a pod.

Volcano's names are kept where they mean the same. Its counters by job name are not: a cluster that runs for a year
would have a series for every job of that year.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sized

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.controller.event_recorder import EventRecorder
from pumice.model.vocabulary import Phase

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
