"""`pumice ps` and `kubectl get` over the same 10,000 Jobs of one API server, in turns, as processes.

Printed: the time of each, the best of three, their ratio, and the peak memory of `pumice ps`. The limits are 1.5 and
150 MiB. kubectl asks for a Table; `pumice ps` asks for objects, because no column of a Table holds how many pods a Job
has, its attempt, or why it waits. The size of both answers is printed, too. A third of the Jobs runs, another
waits, and the last has finished within a day.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

import uvloop

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.engines.kubernetes.auth.access import find_access
from scripts import kubernetes_programs
from scripts.measuring import processor_time, timed
from tests.cluster.api import Object, eventually, path_of
from tests.cluster.cluster import Cluster, temporary_cluster

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
RATIO, MEMORY = 1.5, 150  # MiB
PARALLEL = 32
STATES: Sequence[tuple[str, Object]] = (
    ("Running", {"running": 3}),
    ("Pending", {"pending": 3}),
    ("Completed", {"succeeded": 3}),
)
_MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"


def a_job(number: int) -> Object:
    """Return a Job of the size of those that people write."""
    env = [{"name": f"SETTING_{index}", "value": "x" * 20} for index in range(8)]
    limits = {"cpu": "4", "memory": "16Gi"}
    container = {"name": "main", "image": "registry.example.com/team/train:1", "command": ["python", "train.py"]}
    template = {"spec": {"containers": [container | {"env": env, "resources": {"limits": limits}}]}}
    tasks = [{"name": name, "replicas": count, "template": template} for name, count in (("master", 1), ("worker", 2))]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"train-{number}", "labels": {"team": "vision"}},
        "spec": {"minAvailable": 3, "queue": "default", "plugins": {"svc": [], "env": []}, "tasks": tasks},
    }


def a_status(number: int) -> Object:
    phase, counts = STATES[number % len(STATES)]
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    phases = ["Pending", *(["Running"] if phase == "Completed" else []), phase][-2:]
    message = "0/9 nodes are available: 9 Insufficient cpu" if phase == "Pending" else ""
    return {
        "state": {"phase": phase, "lastTransitionTime": now, "message": message},
        "conditions": [{"status": each, "lastTransitionTime": now} for each in dict.fromkeys(phases)],
        "minAvailable": 3,
        **counts,
    }


async def create(cluster: Cluster, count: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            job, status = a_job(number), {"status": a_status(number)}
            await client.create(JOBS, "default", json.dumps(job).encode(), attempts=5)
            body = json.dumps(status).encode()
            await client.merge_patch(JOBS, "default", f"train-{number}", body, subresource="status", attempts=5)

    async with Client(find_access(str(cluster.kubeconfig()))) as client:
        await asyncio.gather(*(work() for _ in range(PARALLEL)))


def measured(command: Sequence[str], env: dict[str, str]) -> tuple[float, float, int]:
    """Run a program; return its seconds, its processor seconds and the lines that it printed."""
    times: list[float] = []
    with processor_time() as used:
        with timed(times):
            done = subprocess.run(command, capture_output=True, check=True, env=env)
        return times[0], used(), done.stdout.count(b"\n")


def peak_memory(command: Sequence[str], env: dict[str, str]) -> float:
    """Return the peak memory of a program in MiB."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return usage.ru_maxrss / 1024


def compare(cluster: Cluster) -> None:
    config = str(cluster.kubeconfig())
    env = {"PATH": os.defpath, "HOME": str(cluster.folder), "KUBECONFIG": config}
    kubectl = [str(cluster.programs.path("kubectl")), "get", "jobs.batch.volcano.sh", "-o", "wide"]
    pumice = [sys.executable, "-c", _MAIN, "ps", "--on", "admin"]
    best: dict[str, tuple[float, float, int]] = {}
    for _ in range(ROUNDS):
        for name, command in (("kubectl get", kubectl), ("pumice ps", pumice)):
            best[name] = min(best.get(name, (1e9, 0.0, 0)), measured(command, env))
    for name, (took, used, lines) in best.items():
        print(f"{name:12} {took:6.2f} s, {used:5.2f} s of processor time, {lines} lines")
    ratio, memory = best["pumice ps"][0] / best["kubectl get"][0], peak_memory(pumice, env)
    print(f"ratio        {ratio:6.2f} (at most {RATIO})")
    print(f"memory       {memory:6.0f} MiB (at most {MEMORY})")
    sizes(cluster)


def sizes(cluster: Cluster) -> None:
    """Print what a Job costs in each of the two answers."""
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for name, accept in (("Table", table), ("objects", "application/json")):
        path = f"{path_of('Job', 'default')}?limit=500"
        command = [str(cluster.programs.path("kubectl")), f"--kubeconfig={cluster.kubeconfig()}", "get", "--raw", path]
        if name == "Table":
            # `get --raw` cannot ask for another form; `-v 8` would print it.
            api = cluster.api()
            connection = api._connect()  # noqa: SLF001 - the only request with a header of its own
            connection.request("GET", path, headers={"Authorization": f"Bearer {api.token}", "Accept": accept})
            size = len(connection.getresponse().read())
            connection.close()
        else:
            size = len(subprocess.run(command, capture_output=True, check=True).stdout)
        print(f"{name:12} {size / 500:6.0f} bytes a Job")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    args = parser.parse_args()
    programs = kubernetes_programs.find(os.environ, ROOT)
    if programs is None:
        print("the programs of Kubernetes are not built: make test does it; nothing was measured")
        return 0
    with temporary_cluster(programs) as cluster:
        crds = subprocess.run(
            [sys.executable, "-c", _MAIN, "install", "--crds-only"], capture_output=True, check=True, text=True
        ).stdout
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=crds)
        api = cluster.api()
        eventually("the definitions are served", lambda: api.ask("GET", path_of("Job")).status == HTTPStatus.OK)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(create(cluster, args.jobs))
        compare(cluster)
    return 0


if __name__ == "__main__":
    sys.exit(main())
