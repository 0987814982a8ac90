"""The cost of the page of a cluster with 500 Jobs and 5,000 pods, all running, on a real API server.

Printed as in `benchmarks/ui.py`, with the streams of the list and of one Job open while nothing happens. The limits are
150 MiB and 3 % of a core.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.ui import measure
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import JOBS, PODS
from pumice.engines.kubernetes.auth.access import find_access
from pumice.model import keys
from scripts import kubernetes_programs
from scripts.measuring import running_page
from tests.cluster.api import Object
from tests.cluster.cluster import temporary_cluster
from tests.cluster.controllers import install
from tests.cluster.pod_status import container_status, running, status, timestamp

T = TypeVar("T")
R = TypeVar("R")
_ROOT = Path(__file__).resolve().parent.parent
_JOBS, _PODS = 500, 10
_NAMESPACE = "ml"
_PARALLEL = 32
_MEMORY, _BUSY = 150, 3.0  # MiB, per cent
_ENDPOINTS = (
    "timeline",
    "pods",
    "logs",
    "logs/volume",
    "logs/search?q=epoch",
    "events",
    "rendered",
    "policies",
    "file",
)


def main() -> int:
    programs = kubernetes_programs.find_or_wait(os.environ, _ROOT)
    if programs is None:
        print("the Kubernetes programs are not built: run make test first")
        return 0
    with tempfile.TemporaryDirectory() as home, temporary_cluster(programs) as cluster:
        install(cluster)
        cluster.make_namespace(_NAMESPACE)
        kubeconfig = cluster.kubeconfig(namespace=_NAMESPACE)
        begin = time.monotonic()
        uid = asyncio.run(_make(kubeconfig))
        print(f"made {_JOBS} Jobs and {_JOBS * _PODS} pods in {time.monotonic() - begin:.1f} s")
        environ = {**os.environ, "HOME": home, "KUBECONFIG": str(kubeconfig), "XDG_STATE_HOME": home}
        with running_page(environ, "--on", "admin") as page:
            return measure(page, uid, _ENDPOINTS, (_MEMORY, _BUSY))


async def _make(kubeconfig: Path) -> str:
    async with Client(find_access(str(kubeconfig))) as client:
        made = await _each(range(_JOBS), lambda number: _make_job(client, f"train-{number}"))
        pods = [(job, index) for job in made for index in range(_PODS)]
        await _each(pods, lambda each: _make_pod(client, *each))
    return str(made[0]["metadata"]["uid"])


async def _each(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    room = asyncio.Semaphore(_PARALLEL)

    async def limited(item: T) -> R:
        async with room:
            return await work(item)

    return list(await asyncio.gather(*map(limited, items)))


async def _make_job(client: Client, name: str) -> Object:
    task = {"name": "worker", "replicas": _PODS, "template": {"spec": _pod_spec()}}
    spec = {"queue": "default", "maxRetry": 3, "plugins": {"pytorch": []}, "tasks": [task]}
    manifest = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": name}, "spec": spec}
    made = msgspec.json.decode(await client.create(JOBS, _NAMESPACE, msgspec.json.encode(manifest)))
    conditions = [{"status": phase, "lastTransitionTime": timestamp()} for phase in ("Pending", "Running")]
    state = {"phase": "Running", "lastTransitionTime": timestamp()}
    body = {"status": {"state": state, "conditions": conditions, "running": _PODS}}
    await client.merge_patch(JOBS, _NAMESPACE, name, msgspec.json.encode(body), subresource="status")
    found: Object = made
    return found


async def _make_pod(client: Client, job: Object, index: int) -> None:
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": name, "uid": uid, "controller": True}
    pod = f"{name}-worker-{index}"
    metadata = {
        "name": pod,
        "labels": {keys.JOB_NAME: name, keys.TASK_SPEC: "worker"},
        "annotations": {
            keys.TASK_SPEC: "worker",
            keys.TASK_INDEX: str(index),
            keys.JOB_VERSION: "0",
            keys.JOB_RETRY_COUNT: "0",
        },
        "ownerReferences": [owner],
    }
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod_spec()}
    made = msgspec.json.decode(await client.create(PODS, _NAMESPACE, msgspec.json.encode(manifest)))
    container = container_status(made["spec"]["containers"][0], running(), ready=True)
    body = {"status": {**status(made, "Running", [container]), "podIP": f"10.1.{index}.7"}}
    await client.merge_patch(PODS, _NAMESPACE, pod, msgspec.json.encode(body), subresource="status")


def _pod_spec() -> Object:
    container = {
        "name": "main",
        "image": "train:1",
        "command": ["python", "train.py"],
        "env": [{"name": f"OPTION_{number}", "value": f"value of option {number}"} for number in range(30)],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
    }
    return {"restartPolicy": "Never", "containers": [container]}


if __name__ == "__main__":
    sys.exit(main())
