"""Webhook and controller under attack, on a real API server.

Webhook: 500 clients hold connections, half with the beginning of a head and half with a body that arrives byte by byte,
and connect again when they are closed. Meanwhile the API server asks for 100 reviews of an invalid Job, which only the
webhook refuses. Printed: how many were refused within a second, the slowest, and the peak memory of the webhook.

Controller: ten of the largest Jobs that admission accepts arrive. Meanwhile small Jobs are created one after the other.
Printed: how long each waited for its first pod, compared with an idle controller, and its peak memory.

API server, etcd, clients and attackers share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pumice.admission.size_limits import check_size
from pumice.engines.kubernetes.install.webhook_configurations import VALIDATE
from scripts import kubernetes_programs
from tests.cluster.api import eventually
from tests.cluster.cluster import Cluster, temporary_cluster
from tests.cluster.controllers import Controllers, install
from tests.cluster.jobs import a_job
from tests.cluster.processes import peak_memory
from tests.cluster.webhooks import Webhooks, dry_run, port_of, wait_until_called
from tests.hostile_jobs import SHAPES, filled, size

ROOT = Path(__file__).resolve().parent.parent
ATTACKERS = 500
REVIEWS = 100
LARGE_JOBS = 10
SMALL_JOBS = 30
NAMESPACE = "bench"


async def attack(port: int) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

    async def hold(number: int) -> None:
        while True:
            with contextlib.suppress(OSError, ssl.SSLError):
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
                writer.write(f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\n".encode())
                if number % 2:
                    writer.write(b"Content-Length: 1000000\r\n\r\n{")
                while not writer.transport.is_closing():
                    await asyncio.sleep(0.5)
                    if number % 2:
                        writer.write(b" ")
                        await writer.drain()
            await asyncio.sleep(0.5)

    await asyncio.gather(*(hold(number) for number in range(ATTACKERS)))


def refused(cluster: Cluster, count: int) -> list[float]:
    """Return how long the API server took for each refusal; inf for what the webhook did not refuse."""
    invalid, took = a_job("bad", plugins={"pytorhc": []}), []
    for _ in range(count):
        began = time.monotonic()
        status = dry_run(cluster, NAMESPACE, invalid).status
        took.append(time.monotonic() - began if status == 422 else float("inf"))  # noqa: PLR2004 - Unprocessable
    return took


def measure_webhook(cluster: Cluster, folder: Path) -> None:
    webhooks = Webhooks(cluster, folder)
    try:
        daemon = webhooks.start_outside()
        wait_until_called(cluster, NAMESPACE, a_job("bad", plugins={"pytorhc": []}))
        show("webhook, no attack", refused(cluster, REVIEWS), peak_memory(daemon))
        attackers = subprocess.Popen([sys.executable, "-m", "benchmarks.hostile", "--attack", str(port_of(daemon))])
        try:
            time.sleep(10)
            show(f"webhook, {ATTACKERS} hostile clients", refused(cluster, REVIEWS), peak_memory(daemon))
        finally:
            attackers.kill()
            attackers.wait()
    finally:
        webhooks.stop()


def first_pods(cluster: Cluster, prefix: str, count: int) -> list[float]:
    """Return how long each of some small Jobs waited for its pod."""
    api, took = cluster.api(), []
    for number in range(count):
        name = f"{prefix}-{number}"
        began = time.monotonic()
        api.create("Job", NAMESPACE, a_job(name, replicas=1))
        while api.find("Pod", NAMESPACE, f"{name}-worker-0") is None:
            time.sleep(0.01)
        took.append(time.monotonic() - began)
    return took


def measure_controller(cluster: Cluster, folder: Path) -> None:
    shapes = ("volumes in all tasks", "tasks with plugins", "variables", "containers")
    large = [filled(SHAPES[shape], lambda job: not check_size(job)) for shape in shapes]
    sizes = ", ".join(f"{size(job) // 1000} kB" for job in large)

    def arrive() -> None:
        for number in range(LARGE_JOBS):
            job = large[number % len(large)]
            cluster.api().create("Job", NAMESPACE, {**job, "metadata": {"name": f"large-{number}"}})

    controllers = Controllers(cluster, folder)
    try:
        daemon = controllers.start(NAMESPACE, quickly=False)
        first_pods(cluster, "warm", 3)
        show("controller, idle", first_pods(cluster, "before", SMALL_JOBS), peak_memory(daemon))
        thread = threading.Thread(target=arrive)
        thread.start()
        took = first_pods(cluster, "during", SMALL_JOBS)
        thread.join()
        show(f"controller, {LARGE_JOBS} large Jobs of {sizes}", took, peak_memory(daemon))
    finally:
        controllers.stop()


def show(what: str, took: Sequence[float], memory: float) -> None:
    ordered = sorted(took)
    within = sum(each <= 1.0 for each in took)
    print(
        f"{what}: {within} of {len(took)} within 1 s, median {ordered[len(took) // 2]:.3f} s, "
        f"slowest {ordered[-1]:.3f} s, peak memory {memory:.0f} MiB",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"webhook": measure_webhook, "controller": measure_controller}
    parser.add_argument("part", nargs="*", metavar="|".join(parts), help="only these parts")
    parser.add_argument("--attack", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attack:
        asyncio.run(attack(args.attack))
        return 0
    found = kubernetes_programs.find(os.environ, ROOT)
    if found is None:
        print("there is no API server; run `make test` once to build it")
        return 0
    with temporary_cluster(found) as cluster:
        install(cluster)
        cluster.make_namespace(NAMESPACE)
        eventually("the namespace is there", lambda: cluster.api().find("Namespace", "", NAMESPACE) is not None)
        for part in args.part or parts:
            parts[part](cluster, cluster.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
