"""The controller compared with the limit of its API server, in the same run on the same machine.

The limit is the rate of a bare client that sends prepared bodies, as many at once as the controller does, and watches
the pods. Printed for one job of many pods, for many jobs of ten that the controller finds at its start, and for as many
that are posted by 16 connections while it runs: pods created and deleted per second, each as a ratio to that limit, the
controller's processor time per thousand pods, from its start or the first post until it is idle, and its peak memory:
the best of three rounds in turns.
Below each, the calls that a job costs, by kind, to create its pods and to delete them, as the API server counts them,
and the processor time of all that takes part per thousand pods. Where other programs are at work, the ratio of these
times is what the ratio of the rates would be on an idle machine. Last, the cost of idle jobs.

Clients, API server and etcd share the machine, as they do in the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import msgspec
import uvloop

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.auth.access import find_access
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.runtime.kubernetes_types import kubernetes_types
from scripts import kubernetes_programs
from tests.cluster.api import eventually, path_of
from tests.cluster.cluster import Cluster, temporary_cluster

ROOT = Path(__file__).resolve().parent.parent
PARALLEL = 64
POSTERS = 16  # connections that post jobs while the controller runs
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ROUNDS = 3
POLL = 0.2
QUIET = 3.0  # seconds without work after which it counts as idle
TICKS = 0.03  # the processor time of leader election
PATIENCE = 900.0
# What the controller calls. The rest is called by this script, by watches or by the servers among themselves.
CALLS = (
    "POST pods",
    "DELETE pods",
    "GET pods",
    "PATCH jobs/status",
    "POST events",
    "POST services",
    "POST configmaps",
    "POST secrets",
    "PATCH secrets",
    "DELETE services",
    "DELETE configmaps",
    "DELETE secrets",
)
_METRIC = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class _ListMeta(msgspec.Struct, rename="camel"):
    remaining_item_count: int = 0


class _Count(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: _ListMeta


@dataclass(frozen=True, slots=True)
class Sizes:
    large: int
    jobs: int
    idle: int
    rounds: int = ROUNDS
    each: int = 10


def processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def servers_time(cluster: Cluster) -> float:
    """Return the processor time of API server and etcd."""
    processes = [cluster.daemons[name].process for name in ("etcd", "kube-apiserver")]
    return sum((processor_time(each.pid) for each in processes if each is not None), 0.0)


@dataclass(slots=True)
class Controller:
    process: subprocess.Popen[bytes]

    @property
    def cpu(self) -> float:
        return processor_time(self.process.pid)

    @property
    def peak(self) -> float:
        """Megabytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmHWM in /proc")

    async def idle(self) -> None:
        """Return when it has been idle for a while."""
        last, since = self.cpu, time.monotonic()
        while time.monotonic() - since < QUIET:
            await asyncio.sleep(0.5)
            if self.cpu - last > TICKS:
                last, since = self.cpu, time.monotonic()


@contextlib.contextmanager
def controller(kubeconfig: Path, namespace: str) -> Iterator[Controller]:
    command = [sys.executable, "-c", "import sys; from pumice.cli.program import main; sys.exit(main())"]
    command += ["controller", f"--kubeconfig={kubeconfig}", "--gang=none", f"--namespace={namespace}"]
    log = kubeconfig.with_name(f"controller-{namespace}.log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdin=subprocess.DEVNULL)
    try:
        while b"leading" not in log.read_bytes():
            if process.poll() is not None:
                raise SystemExit(f"the controller ended: {log.read_text()}")
            time.sleep(0.1)
        yield Controller(process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def job(name: str, pods: int) -> dict[str, object]:
    container = {
        "name": "worker",
        "image": "train:1",
        "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [{"name": "worker", "replicas": pods, "template": template}], "plugins": {"env": []}},
    }


def bodies(jobs: Sequence[tuple[str, int]], namespace: str) -> list[bytes]:
    """Return the pods that the controller creates."""
    text = "\n---\n".join(json.dumps(job(*one)) for one in jobs)
    render = [sys.executable, "-c", "import sys; from pumice.cli.program import main; sys.exit(main())"]
    render += ["render", "-", "-o", "json", "--namespace", namespace]
    done = subprocess.run(render, input=text.encode(), capture_output=True, check=True)
    pods = [one for one in json.loads(done.stdout)["items"] if one["kind"] == "Pod"]
    for pod in pods:
        pod["spec"]["schedulerName"] = "default-scheduler"
        pod["metadata"]["ownerReferences"][0]["controller"] = False
    return [json.dumps(pod).encode() for pod in pods]


async def count(client: Client, resource: Resource, namespace: str) -> int:
    # With a selector the server does not return the remaining count.
    page = msgspec.json.decode(
        await client.request("GET", resource.path(namespace), params={"limit": "1"}), type=_Count
    )
    return len(page.items) + page.metadata.remaining_item_count


async def until(client: Client, namespace: str, wanted: int) -> tuple[float, float]:
    """Return when the number of pods first changed, and when it reached the wanted one."""
    first, began = 0.0, await count(client, resources.PODS, namespace)
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        now = await count(client, resources.PODS, namespace)
        if now != began and not first:
            first = time.monotonic()
        if now == wanted:
            return first, time.monotonic()
        await asyncio.sleep(POLL)
    raise SystemExit(f"{now} pods instead of {wanted} after {PATIENCE:.0f} s")


@contextlib.asynccontextmanager
async def watching(client: Client, namespace: str) -> AsyncIterator[ClusterCache]:
    """Watch the pods, as the controller must."""
    cache = ClusterCache(client, kubernetes_types().types, [namespace], lambda _key: None)
    task = asyncio.create_task(cache.run())
    await cache.synced()
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def at_once(client: Client, calls: Iterator[tuple[str, str, bytes | None]], parallel: int = PARALLEL) -> int:
    async def work() -> int:
        done = 0
        for method, path, body in calls:
            await client.request(method, path, body=body, attempts=None)
            done += 1
        return done

    return sum(await asyncio.gather(*(work() for _ in range(parallel))))


def rate(pods: int, moments: tuple[float, float]) -> float:
    first, last = moments
    # Work that ends between two polls took less than the poll interval.
    return pods / max(last - first, POLL)


@dataclass(frozen=True, slots=True)
class Limit:
    made: float
    removed: float
    time_made: float  # processor time per thousand pods, of the servers and the client
    time_removed: float


async def limit(cluster: Cluster, client: Client, namespace: str, pods: Sequence[bytes]) -> Limit:
    """Measure a bare client as the controller is measured."""
    path = resources.PODS.path(namespace)
    names = [json.loads(body)["metadata"]["name"] for body in pods]
    options = b'{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{}}'
    creates = iter([("POST", path, body) for body in pods])
    deletes = iter([("DELETE", f"{path}/{name}", options) for name in names])
    async with watching(client, namespace):
        times = [servers_time(cluster) + time.process_time()]
        made, _ = await asyncio.gather(until(client, namespace, len(pods)), at_once(client, creates))
        await asyncio.sleep(2)
        times.append(servers_time(cluster) + time.process_time())
        removed, _ = await asyncio.gather(until(client, namespace, 0), at_once(client, deletes))
        times.append(servers_time(cluster) + time.process_time())
        first, second, third = (each / len(pods) * 1000 for each in times)
        return Limit(rate(len(pods), made), rate(len(pods), removed), second - first, third - second)


@dataclass(frozen=True, slots=True)
class Outcome:
    made: float
    removed: float
    calls_made: collections.Counter[str]
    calls_removed: collections.Counter[str]
    cpu_made: float  # seconds per thousand pods
    cpu_removed: float
    peak: float
    time_made: float  # processor time per thousand pods, of the servers and the controller
    time_removed: float


async def measured(
    cluster: Cluster, client: Client, namespace: str, jobs: Sequence[tuple[str, int]], *, posted: bool
) -> Outcome:
    """Measure the controller, which finds the jobs at its start, or is there before them; later they are suspended."""
    total = sum(pods for _, pods in jobs)
    path = resources.JOBS.path(namespace)
    posts = iter([("POST", path, json.dumps(job(*one)).encode()) for one in jobs])
    if not posted:
        await at_once(client, posts)
    before, began = await calls(client), servers_time(cluster)
    with controller(cluster.folder / "admin.config", namespace) as running:
        first, started = time.monotonic(), running.cpu if posted else 0.0
        made, _ = await asyncio.gather(until(client, namespace, total), at_once(client, posts, POSTERS))
        made = (first, made[1]) if posted else made
        await running.idle()
        cpu, between, middle = running.cpu, await calls(client), servers_time(cluster)
        removed, _ = await asyncio.gather(
            until(client, namespace, 0), _suspended(client, namespace, [name for name, _ in jobs])
        )
        await running.idle()
        return Outcome(
            made=rate(total, made),
            removed=rate(total, removed),
            calls_made=between - before,
            calls_removed=await calls(client) - between,
            cpu_made=(cpu - started) / total * 1000,
            cpu_removed=(running.cpu - cpu) / total * 1000,
            peak=running.peak,
            time_made=(middle - began + cpu - started) / total * 1000,
            time_removed=(servers_time(cluster) - middle + running.cpu - cpu) / total * 1000,
        )


async def calls(client: Client) -> collections.Counter[str]:
    """Return how many calls the API server has answered, by kind."""
    counts: collections.Counter[str] = collections.Counter()
    text = (await client.request("GET", "/metrics", accept="text/plain")).decode()
    for found in _METRIC.finditer(text):
        labels = dict(_LABEL.findall(found["labels"]))
        what = "/".join(filter(None, (labels["resource"], labels["subresource"])))
        kind = f"{labels['verb']} {what}"
        if kind in CALLS:
            counts[kind] += int(float(found["count"]))
    return counts


async def _suspended(client: Client, namespace: str, names: Sequence[str]) -> None:
    for name in names:
        await client.merge_patch(resources.JOBS, namespace, name, b'{"spec":{"suspend":true}}', attempts=None)


async def idle_cost(client: Client, kubeconfig: Path, namespace: str, jobs: int) -> tuple[float, float]:
    """Return percent of a core and megabytes for idle jobs."""
    path = resources.JOBS.path(namespace)
    made = [job(f"idle-{number}", 0) for number in range(jobs)]
    await at_once(client, iter([("POST", path, json.dumps(one).encode()) for one in made]))
    with controller(kubeconfig, namespace) as running:
        await running.idle()
        before, began = running.cpu, time.monotonic()
        await asyncio.sleep(20)
        return (running.cpu - before) / (time.monotonic() - began) * 100, running.peak


async def fresh(client: Client, name: str) -> str:
    await client.create(NAMESPACES, None, json.dumps({"metadata": {"name": name}}).encode())
    account = json.dumps({"metadata": {"name": "default"}}).encode()
    with contextlib.suppress(ApiError):
        await client.create(SERVICE_ACCOUNTS, name, account)
    return name


def line(what: str, limits: Sequence[Limit], ours: Sequence[Outcome]) -> str:
    """Return the best of all rounds, of the bare client and of the controller."""
    made, removed = max(got.made for got in ours), max(got.removed for got in ours)
    most_made, most_removed = max(each.made for each in limits), max(each.removed for each in limits)
    cpu_made, cpu_removed = min(got.cpu_made for got in ours), min(got.cpu_removed for got in ours)
    return (
        f"{what:24}{made:8.0f}{made / most_made:7.2f}{removed:11.0f}{removed / most_removed:7.2f}"
        f"{cpu_made:12.2f}{cpu_removed:7.2f}{max(got.peak for got in ours):6.0f}"
    )


def times_line(limits: Sequence[Limit], ours: Sequence[Outcome]) -> str:
    """Return the least processor time of all rounds, of the bare client and of the controller with the servers."""
    shown = []
    for what, bare, led in (
        ("created", [each.time_made for each in limits], [each.time_made for each in ours]),
        ("deleted", [each.time_removed for each in limits], [each.time_removed for each in ours]),
    ):
        shown.append(f"{what}: limit {min(bare):.2f} s, controller {min(led):.2f} s, ratio {min(bare) / min(led):.2f}")
    return f"  processor time per 1000 pods, {'; '.join(shown)}"


def calls_line(what: str, counts: collections.Counter[str], jobs: int) -> str:
    shown = ", ".join(f"{counts[kind] / jobs:.2f} {kind}" for kind in CALLS if counts[kind])
    return f"  calls per job, {what}: {shown}; {counts.total() / jobs:.2f} in all"


async def compare(cluster: Cluster, sizes: Sizes) -> None:
    kubeconfig = cluster.folder / "admin.config"
    async with Client(find_access(str(kubeconfig)), parallel_writes=PARALLEL) as client:
        many = [(f"j{n}", sizes.each) for n in range(sizes.jobs)]
        work = {
            f"1 job of {sizes.large} pods": ([("large", sizes.large)], False),
            f"{sizes.jobs} jobs of {sizes.each} pods": (many, False),
            f"{sizes.jobs} of {sizes.each}, posted": (many, True),
        }
        print(f"{'':24}{'made/s':>8}{'ratio':>7}{'removed/s':>11}{'ratio':>7}{'CPU s/1000':>12}{'+gone':>7}{'MiB':>6}")
        for number, (what, (jobs, posted)) in enumerate(work.items()):
            limits, ours = list[Limit](), list[Outcome]()
            # In turns, so that a slow phase of the machine affects both.
            for turn in range(sizes.rounds):
                bare = await fresh(client, f"bare-{number}-{turn}")
                limits.append(await limit(cluster, client, bare, bodies(jobs, bare)))
                print(f"  limit, round {turn + 1:<9}{limits[-1].made:8.0f}{'':7}{limits[-1].removed:11.0f}", flush=True)
                led = await fresh(client, f"ours-{number}-{turn}")
                ours.append(await measured(cluster, client, led, jobs, posted=posted))
                print(f"  controller{'':12}{ours[-1].made:8.0f}{'':7}{ours[-1].removed:11.0f}", flush=True)
            print(line(what, limits, ours), flush=True)
            print(times_line(limits, ours))
            print(calls_line("pods created", ours[-1].calls_made, len(jobs)))
            print(calls_line("pods deleted", ours[-1].calls_removed, len(jobs)), flush=True)
        if sizes.idle:
            idle = await fresh(client, "idle")
            percent, peak = await idle_cost(client, kubeconfig, idle, sizes.idle)
            print(f"{sizes.idle} idle jobs: {percent:.2f} % of a core, {peak:.0f} MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=5000, help="pods of the large job")
    parser.add_argument("--jobs", type=int, default=500, help="jobs of ten pods")
    parser.add_argument("--idle", type=int, default=1000, help="idle jobs")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds, of which the best counts")
    args = parser.parse_args()
    programs = kubernetes_programs.find(os.environ, ROOT)
    if programs is None:
        print("the programs of Kubernetes are not built: make test does it; nothing was measured")
        return 0
    with temporary_cluster(programs) as cluster:
        install = [sys.executable, "-c", "import sys; from pumice.cli.program import main; sys.exit(main())"]
        crds = subprocess.run([*install, "install", "--crds-only"], capture_output=True, check=True, text=True).stdout
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=crds)
        api = cluster.api()
        eventually(
            "the definitions are served",
            lambda: all(api.ask("GET", path_of(kind)).status == HTTPStatus.OK for kind in ("Job", "Command")),
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(compare(cluster, Sizes(args.pods, args.jobs, args.idle, args.rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
