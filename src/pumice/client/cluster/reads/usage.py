"""What the pods of a Job use, as metrics.k8s.io says: a cluster has it where an administrator installed a server."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import field

from pumice.client.backend import Usage
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import ClusterPod, JobFacts
from pumice.diagnosis.cluster.objects import quantities
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import AnyObject
from pumice.engines.kubernetes.api.resources import Resource
from pumice.model import keys
from pumice.model.quantity import Quantity
from pumice.model.resources import sum_usage
from pumice.model.snapshot import PodPhase
from pumice.model.units import read_time
from pumice.store.run_errors import Denied, Unsupported
from pumice.store.sample_file import Sample

_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
_INSTALL: Final = "an administrator installs metrics-server, which serves metrics.k8s.io"


class _PodMetrics(AnyObject, frozen=True):
    timestamp: str | None = None
    containers: list[dict[str, Any]] = field(default_factory=list)


async def usage_of(connection: Connection, facts: JobFacts, *, live: bool) -> Usage:
    """Raises Unsupported if the cluster measures no pods; Denied without the right to see it."""
    facts.check_pods()
    found: dict[str, _PodMetrics] = {}
    try:
        pages = connection.client.list_pages(
            _METRICS, facts.job.namespace, label_selector=f"{keys.JOB_NAME}={facts.job.name}"
        )
        async for items, _ in pages:
            metrics = (msgspec.json.decode(raw, type=_PodMetrics) for raw in items)
            found |= {each.metadata.name: each for each in metrics}
    except ApiError as error:
        if error.not_found or error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise Unsupported(f"{connection.name}: what pods use is not known: {_INSTALL}") from error
        if error.is_forbidden:
            raise Denied(f"{connection.name}: {error}", "ask for list of pods.metrics.k8s.io") from error
        raise connection.explained(error) from error
    running = [pod for pod in facts.pods if pod.observed.phase is PodPhase.RUNNING]
    return Usage(list(_samples(running, found)), live)


def _samples(pods: Sequence[ClusterPod], found: dict[str, _PodMetrics]) -> list[Sample]:
    """Return a sample of each pod that is measured: one that has just started is not."""
    samples = []
    for pod in pods:
        metrics = found.get(pod.name)
        time = None if metrics is None else read_time(metrics.timestamp)
        if metrics is None or time is None:
            continue
        used = sum_usage((quantities(each.get("usage") or {}), 1) for each in metrics.containers)
        samples.append(
            Sample(
                pod=pod.observed.short_name,
                attempt=pod.observed.retry + 1,
                time=time,
                t=max(0.0, (time - pod.observed.created_at).total_seconds()),
                cpu=round(used.get("cpu", Quantity()).nanos / 10**9, 3),
                cpu_seconds=0.0,  # not measured
                memory=used.get("memory", Quantity()).nanos // 10**9,
            )
        )
    return samples
