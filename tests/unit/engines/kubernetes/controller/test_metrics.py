from __future__ import annotations

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.controller.event_recorder import EventRecorder
from pumice.engines.kubernetes.controller.monitoring import MAX_QUEUES, OTHER_QUEUES, Metrics
from pumice.engines.memory.timeline import EPOCH
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.unit.engines.kubernetes.played_api import access_to


def some_metrics() -> Metrics:
    client = Client(access_to(1))
    cache = ClusterCache(client, kubernetes_types().types, (), lambda _key: None)
    return Metrics(client, cache, EventRecorder(client, lambda: EPOCH), {"": [1, 2]})


def test_finished_jobs_are_counted_by_queue() -> None:
    metrics = some_metrics()
    for queue, before, after in (
        ("a", "Running", "Completed"),
        ("a", "Completed", "Completed"),
        ("b", "Running", "Failed"),
        ("b", "Pending", "Running"),
    ):
        metrics.count_transition(queue, before, after)
    assert (metrics.completed, metrics.failed) == ({"a": 1}, {"b": 1})
    text = metrics.text().decode()
    assert 'volcano_job_completed_phase_count{queue_name="a"} 1.0' in text
    assert "pumice_queue_depth 2.0" in text
    assert "pumice_leader 1.0" in text


def test_the_number_of_queues_is_bounded() -> None:
    metrics = some_metrics()
    for number in range(MAX_QUEUES + 50):
        metrics.count_transition(f"queue-{number}", "Running", "Completed")
    metrics.count_transition("queue-0", "Running", "Completed")
    assert len(metrics.completed) == MAX_QUEUES + 1
    assert (metrics.completed["queue-0"], metrics.completed[OTHER_QUEUES]) == (2, 50)
