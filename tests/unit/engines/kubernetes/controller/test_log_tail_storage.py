"""Logs of many Jobs at once, on nodes that do not answer: no pass waits for more than its own."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.cache.decode_pods import CachedPod
from pumice.engines.kubernetes.controller import log_tail_storage
from pumice.engines.kubernetes.controller.log_tail_storage import LogTailStorage
from pumice.model.job import Job, Metadata
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod, PodPhase
from tests.unit.engines.kubernetes.played_api import client_of, played

NOON = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)
JOBS = 40


@dataclass(slots=True)
class Nodes:
    """Answers as an API server; logs come unless the nodes are gone."""

    are_gone: bool = True
    logs: int = 0
    secrets: int = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/log"):
            self.logs += 1
            if self.are_gone:
                await asyncio.Event().wait()
            return web.Response(body=b"2026-11-18T12:00:00Z a\n")
        if request.method == "POST":
            self.secrets += 1
            return web.json_response({}, status=201)
        return web.json_response({"reason": "NotFound", "code": 404}, status=404)


def _failed(name: str) -> tuple[Job, CachedPod]:
    job = Job(metadata=Metadata(name=name, namespace="lab", uid=name))
    end = ContainerEnd("main", 3, finished_at=NOON)
    pod = ObservedPod(f"{name}-worker-0", f"{name}-uid", "worker", 0, 0, 0, PodPhase.FAILED, NOON, ends=(end,))
    key = JobKey("lab", name)
    seen = CachedPod(
        name=pod.name, namespace="lab", uid=pod.uid, resource_version="1", job=key, job_uid=name, observed=pod
    )
    return job, seen


def _storage(client: Any, found: list[tuple[Job, CachedPod]]) -> LogTailStorage:
    pods = {JobKey("lab", job.name): {pod.name: pod} for job, pod in found}
    cache = cast("ClusterCache", SimpleNamespace(pods_of=pods))
    return LogTailStorage(client, cache, lambda: NOON, lambda: 0.0)


@played
async def test_nodes_that_are_gone_are_asked_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tail_storage, "_LOG_LIMIT", 0.5)
    nodes, found = Nodes(), [_failed(f"job-{number}") for number in range(JOBS)]
    async with client_of(nodes) as client:
        storage = _storage(client, found)
        job, pod = found.pop()
        await storage.keep(job, pod.name, pod.uid)
        assert nodes.logs == 1
        await asyncio.gather(*(storage.keep(job, pod.name, pod.uid) for job, pod in found))
        assert nodes.logs == 2
        # Each attempt is tried once.
        await asyncio.gather(*(storage.keep(job, pod.name, pod.uid) for job, pod in found))
        assert nodes.logs == 2
        for job, _ in found:
            storage.forget(JobKey("lab", job.name))
        nodes.are_gone = False
        job, pod = found.pop()
        await storage.keep(job, pod.name, pod.uid)
        await asyncio.gather(*(storage.keep(job, pod.name, pod.uid) for job, pod in found))
        assert nodes.logs == JOBS + 1
