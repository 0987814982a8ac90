"""Failures of whole servers: restarts, a paused etcd, closed watches, killed leaders, clocks that jump.

These tests stop parts of the cluster, so they have a cluster of their own.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import uvloop

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.auth.access import find_access
from pumice.engines.kubernetes.controller.process import Controller, Settings
from pumice.engines.kubernetes.install import names
from pumice.runtime.discovery import discover
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, fork_pumice, grant_lease, page
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.jobs import a_job, until_phase
from tests.cluster.processes import Daemon
from tests.cluster.scenarios import NAME, SCENARIOS, JobHandle, final_state, wait_until_over
from tests.fork_server import Forked
from tests.patience import PATIENCE

pytestmark = [
    # Closed connections stay open at this end until they are garbage collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
WORKERS = 6
OUTAGE = 20.0


def run_restarting_job(cluster: Cluster, namespace: str, disturb: Callable[[], object] = lambda: None) -> None:
    """Run a job that restarts once, call `disturb` when it has pods, and check that it completes without extra pods."""
    scenario, handle = SCENARIOS["restarts"], JobHandle(cluster.api(), namespace)
    with FakeKubelet(cluster, namespace, scenario.behaviour) as kubelet:
        handle.api.create("Job", namespace, scenario.job)
        eventually("its pods exist", lambda: handle.api.list("Pod", namespace))
        disturb()
        wait_until_over(handle, scenario)
        found = final_state(handle, kubelet.created)
    assert found["created"] == 4
    assert (found["status"]["state"]["phase"], found["status"]["retryCount"]) == ("Completed", 1)
    assert found["pods"] == {f"{NAME}-worker-{index}": "Succeeded" for index in range(2)}


@pytest.mark.parametrize(
    "crash", [pytest.param(False, id="stopped", marks=pytest.mark.soak), pytest.param(True, id="killed")]
)
def test_a_restart_of_the_api_server(controllers: Controllers, api: Api, namespace: str, crash: bool) -> None:
    cluster = controllers.cluster
    controller = controllers.start(namespace)
    with FakeKubelet(cluster, namespace) as kubelet:
        api.create("Job", namespace, a_job(replicas=WORKERS))
        until_phase(api, namespace, "Running")
        assert readiness(controller) == "ok\n"
        (cluster.api_server.kill if crash else cluster.api_server.stop)()
        eventually("it is not ready", lambda: readiness(controller).startswith("503 the API server is away: "))
        assert page(controller, "/healthz") == "ok\n"
        cluster.restart_api_server()
        eventually("it is ready again", lambda: readiness(controller) == "ok\n")
        for index in range(WORKERS):
            kubelet.finish(f"train-worker-{index}")
        until_phase(api, namespace, "Completed")
        assert kubelet.created == WORKERS


def readiness(controller: Daemon) -> str:
    try:
        return page(controller, "/readyz")
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"


def test_a_pause_of_etcd(controllers: Controllers, api: Api, namespace: str) -> None:
    cluster = controllers.cluster
    controllers.start(namespace)
    with FakeKubelet(cluster, namespace) as kubelet:
        api.create("Job", namespace, a_job(replicas=WORKERS, plugins={"svc": []}))
        cluster.etcd.pause()
        time.sleep(OUTAGE)
        cluster.etcd.resume()
        until_phase(api, namespace, "Running")
        for index in range(WORKERS):
            kubelet.finish(f"train-worker-{index}")
        until_phase(api, namespace, "Completed")
        assert kubelet.created == WORKERS


def test_watches_that_are_closed_repeatedly(controllers: Controllers, namespace: str) -> None:
    over, cuts = threading.Event(), [0]
    with FaultProxy(controllers.cluster) as proxy:
        controller = controllers.start(namespace, server=proxy.server)

        def cut() -> None:
            while not over.wait(0.25):
                cuts.append(proxy.cut_watches())

        thread = threading.Thread(target=cut)
        thread.start()
        try:
            enough = partial(eventually, "more than ten are closed", lambda: sum(cuts) > 10)
            run_restarting_job(controllers.cluster, namespace, enough)
        finally:
            over.set()
            thread.join()
            controller.stop()


def test_leaders_that_are_killed_repeatedly(pumice_cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """Four leaders are killed; each time the standby takes over."""
    grant_lease(pumice_cluster, namespace)
    token = pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER)
    config = pumice_cluster.kubeconfig(names.CONTROLLER, token=token)
    argv = ["controller", f"--kubeconfig={config}", f"--namespace={namespace}", "--gang=none", "--log-format=text"]
    over = threading.Event()

    def start(number: int) -> tuple[Forked, Path]:
        log = tmp_path / f"{number}.log"
        return fork_pumice(argv, log), log

    running = [start(0), start(1)]

    def kill_leaders() -> None:
        number = 2
        while number < 6 and not over.wait(0.5):
            leader = next((one for one in running if one[1].exists() and "leading" in one[1].read_text()), None)
            if leader is not None and not over.wait(random.uniform(0.2, 1.0)):
                running.remove(leader)
                leader[0].kill()
                running.append(start(number))
                number += 1

    thread = threading.Thread(target=kill_leaders)
    thread.start()
    try:
        run_restarting_job(pumice_cluster, namespace)
    finally:
        over.set()
        thread.join()
        for controller, _ in running:
            controller.kill()


class JumpingClock:
    """The real time plus an offset."""

    def __init__(self) -> None:
        self.offset = dt.timedelta()

    def move(self, jump: dt.timedelta) -> None:
        self.offset += jump

    def __call__(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC) + self.offset  # noqa: TID251 - the offset is relative to the real time


@pytest.fixture
def jumping(pumice_cluster: Cluster, namespace: str) -> Iterator[JumpingClock]:
    """The clock of a controller that runs in a thread."""
    clock, token = JumpingClock(), pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER)
    access = find_access(str(pumice_cluster.kubeconfig(names.CONTROLLER, token=token)))
    grant_lease(pumice_cluster, namespace)
    settings = Settings(gang="none", namespaces=(namespace,), listen=("127.0.0.1", 0))
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def control() -> None:
        event = asyncio.Event()
        stop.append((asyncio.get_running_loop(), event))
        async with Client(access) as client:
            await Controller(client, settings, discover(), kubernetes_types().types, clock).run(event)

    def serve() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(control())

    thread = threading.Thread(target=serve)
    thread.start()
    yield clock
    loop, event = stop[0]
    loop.call_soon_threadsafe(event.set)
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "jump", [pytest.param(dt.timedelta(hours=3), id="forward"), pytest.param(-dt.timedelta(hours=3), id="back")]
)
def test_a_clock_that_jumps(jumping: JumpingClock, pumice_cluster: Cluster, namespace: str, jump: dt.timedelta) -> None:
    run_restarting_job(pumice_cluster, namespace, lambda: jumping.move(jump))
