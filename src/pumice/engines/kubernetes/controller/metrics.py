"""What a Prometheus server reads at `/metrics`. Labels are bounded: never the name of a job or of a pod.

Volcano's names are kept where they say the same; its counters by job name are not, because a cluster that runs for a
year would have a series for every job of that year.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.model.vocabulary import Phase

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_QUEUES = 1000
OTHER_QUEUES = "(other)"
# As Volcano's: thirty steps from 50 ms to a minute.
_LATENCIES = tuple(50 * (60000 / 50) ** (step / 29) for step in range(30))


@dataclass(slots=True)
class Numbers:
    """What is counted as it happens."""

    completed: Counter[str] = field(default_factory=Counter)  # jobs, by queue
    failed: Counter[str] = field(default_factory=Counter)
    passes: int = 0
    defects: int = 0
    waiting: int = 0  # jobs that wait to be looked at
    writes_allowed: int = 0
    events_dropped: int = 0
    is_leader: bool = False
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    pod_latency: Histogram = field(init=False)

    def __post_init__(self) -> None:
        self.pod_latency = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Time from the creation of a Job to the creation of its first pod",
            buckets=_LATENCIES,
            registry=self.registry,
        )

    def moved(self, queue: str, before: str, after: str) -> None:
        """A job went from one phase to another."""
        if before == after:
            return
        counts = {str(Phase.COMPLETED): self.completed, str(Phase.FAILED): self.failed}.get(after)
        if counts is not None:
            # Where nobody checks queues, anybody may make one up for each of his jobs.
            counts[queue if queue in counts or len(counts) < MOST_QUEUES else OTHER_QUEUES] += 1


class Metrics(Collector):
    def __init__(self, numbers: Numbers, cache: ClusterCache) -> None:
        self._numbers, self._cache = numbers, cache
        ProcessCollector(registry=numbers.registry)
        GCCollector(registry=numbers.registry)
        numbers.registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._numbers.registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._by_queue()
        yield self._jobs()
        numbers = self._numbers
        for name, what, value in (
            ("pumice_pods", "Pods of jobs that are watched", len(self._cache.pods)),
            ("pumice_queue_depth", "Jobs that wait to be looked at", numbers.waiting),
            ("pumice_writes_allowed", "Writes that may be under way at once", numbers.writes_allowed),
            ("pumice_leader", "1 where this process is the one that works", int(numbers.is_leader)),
        ):
            yield GaugeMetricFamily(name, what, value=value)
        for name, what, count in (
            ("pumice_passes", "Looks at a job", numbers.passes),
            ("pumice_defects", "Looks at a job that ended in an unexpected error", numbers.defects),
            ("pumice_events_dropped", "Events that could not be told", numbers.events_dropped),
        ):
            yield CounterMetricFamily(name, what, value=count)

    def _by_queue(self) -> Iterable[Metric]:
        # Volcano's names have no ending; as a counter they would be given one.
        for name, what, counts in (
            ("volcano_job_completed_phase_count", "Jobs that completed", self._numbers.completed),
            ("volcano_job_failed_phase_count", "Jobs that failed", self._numbers.failed),
        ):
            family = UnknownMetricFamily(name, what, labels=["queue_name"])
            for queue, count in sorted(counts.items()):
                family.add_metric([queue], count)
            yield family

    def _jobs(self) -> Metric:
        phases = Counter(seen.job.status.state.phase for seen in self._cache.jobs)
        jobs = GaugeMetricFamily("pumice_jobs", "Jobs by phase", labels=["phase"])
        for phase in Phase:
            jobs.add_metric([str(phase)], phases[phase])
        return jobs
