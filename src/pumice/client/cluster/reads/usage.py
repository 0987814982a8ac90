"""What the pods of a Job use, as metrics.k8s.io says: a cluster has it where an administrator installed a server."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from pumice.client.backend import Usage
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import ClusterPod, JobFacts
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import ObjectMetadata
from pumice.engines.kubernetes.api.resources import Resource
from pumice.model import keys
from pumice.model.quantity import Quantity
from pumice.model.snapshot import PodPhase
from pumice.model.units import read_time
from pumice.store.run_errors import Denied, Unsupported
from pumice.store.sample_file import Sample

_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
_INSTALL: Final = "an administrator installs metrics-server, which serves metrics.k8s.io"


class _Container(Struct, frozen=True):
    usage: dict[str, str] = {}


class _PodMetrics(Struct, frozen=True):
    metadata: ObjectMetadata = ObjectMetadata()
    timestamp: str | None = None
    containers: list[_Container] = []


async def usage_of(connection: Connection, facts: JobFacts, *, live: bool) -> Usage:
    """Raises Unsupported if the cluster measures no pods; Denied without the right to see it."""
    if "pods" in facts.unreadable:
        raise Denied(f"{facts.job.name}: its pods are not readable for you", "ask for get, list and watch of pods")
    found: dict[str, _PodMetrics] = {}
    try:
        pages = connection.client.list_pages(
            _METRICS, facts.job.namespace, label_selector=f"{keys.JOB_NAME}={facts.job.name}"
        )
        async for items, _ in pages:
            found |= {each.metadata.name: each for each in map(_decode, items)}
    except ApiError as error:
        if error.not_found or error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise Unsupported(f"{connection.name}: what pods use is not known: {_INSTALL}") from error
        if error.is_forbidden:
            raise Denied(f"{connection.name}: {error}", "ask for list of pods.metrics.k8s.io") from error
        raise connection.explained(error) from error
    running = [pod for pod in facts.pods if pod.observed.phase is PodPhase.RUNNING]
    return Usage(list(_samples(running, found)), live)


def _decode(raw: msgspec.Raw) -> _PodMetrics:
    return msgspec.json.decode(raw, type=_PodMetrics)


def _samples(pods: Sequence[ClusterPod], found: dict[str, _PodMetrics]) -> list[Sample]:
    """Return a sample of each pod that is measured: one that has just started is not."""
    samples = []
    for pod in pods:
        metrics = found.get(pod.name)
        time = None if metrics is None else read_time(metrics.timestamp)
        if metrics is None or time is None:
            continue
        samples.append(
            Sample(
                pod=pod.observed.short_name,
                attempt=pod.observed.retry + 1,
                time=time,
                t=max(0.0, (time - pod.observed.created_at).total_seconds()),
                cpu=round(_sum(metrics, "cpu"), 3),
                cpu_seconds=0.0,  # not measured
                memory=int(_sum(metrics, "memory")),
            )
        )
    return samples


def _sum(metrics: _PodMetrics, resource: str) -> float:
    total = 0.0
    for container in metrics.containers:
        try:
            total += Quantity.parse(container.usage.get(resource, "0")).nanos / 10**9
        except ValueError:
            continue
    return total
