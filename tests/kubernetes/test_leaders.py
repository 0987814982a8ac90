"""Several controllers, one Lease: one works, another takes over, at once when it is handed over."""

from __future__ import annotations

import json
import re
import time
import urllib.request

from tests.kubernetes.api import Api, eventually
from tests.kubernetes.controllers import Controllers
from tests.kubernetes.jobs import a_job, until_phase
from tests.kubernetes.played_kubelet import PlayedKubelet
from tests.kubernetes.processes import Daemon

ELECT = "--lease-namespace=pumice-system"


def leads(daemon: Daemon) -> bool:
    return "leading" in daemon.log.read_text()


def test_the_lease_is_handed_over_at_once(controllers: Controllers, api: Api, namespace: str) -> None:
    with PlayedKubelet(controllers.cluster, namespace) as kubelet:
        first = controllers.start(namespace, ELECT)
        eventually("the first leads", lambda: leads(first))
        second = controllers.start(namespace, ELECT)
        eventually("the second waits", lambda: "waiting" in second.log.read_text())
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        assert not leads(second)
        began = time.monotonic()
        first.stop()
        eventually("the second leads", lambda: leads(second))
        # Not by waiting for the Lease to run out, which takes 15 seconds.
        assert time.monotonic() - began < 12
        for index in range(2):
            kubelet.finish(f"train-worker-{index}")
        until_phase(api, namespace, "Completed")
        assert kubelet.created == 2


def test_a_leader_that_is_killed_is_replaced(controllers: Controllers, api: Api, namespace: str) -> None:
    with PlayedKubelet(controllers.cluster, namespace) as kubelet:
        first = controllers.start(namespace, ELECT)
        second = controllers.start(namespace, ELECT)
        eventually("one leads", lambda: leads(first) or leads(second))
        leader, other = (first, second) if leads(first) else (second, first)
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        leader.kill()
        for index in range(2):
            kubelet.finish(f"train-worker-{index}")
        eventually("the other leads", lambda: leads(other))
        until_phase(api, namespace, "Completed")
        assert kubelet.created == 2


def test_health_and_metrics_are_served_on_loopback(controllers: Controllers, api: Api, namespace: str) -> None:
    with PlayedKubelet(controllers.cluster, namespace) as kubelet:
        controller = controllers.start(namespace, "--listen=127.0.0.1:0", "--log-format=json")

        def address() -> str:
            found = re.search(r"127\.0\.0\.1:\d+", controller.log.read_text())
            return found[0] if found else ""

        place = eventually("it says where it listens", address)

        def page(path: str) -> str:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{place}{path}") as answer:
                text: str = answer.read().decode()
                return text

        api.create("Job", namespace, a_job(replicas=1))
        until_phase(api, namespace, "Running")
        assert (page("/healthz"), page("/readyz")) == ("ok\n", "ok\n")
        metrics = page("/metrics")
        assert 'pumice_jobs{phase="Running"} 1.0' in metrics
        assert "pumice_leader 1.0" in metrics
        assert "volcano_controller_job_to_pod_creation_latency_milliseconds_count 1.0" in metrics
        assert "train" not in metrics
        kubelet.finish("train-worker-0")
        until_phase(api, namespace, "Completed")
        assert 'volcano_job_completed_phase_count{queue_name="default"} 1.0' in page("/metrics")
        lines = [json.loads(line) for line in controller.log.read_text().splitlines()]
        assert all({"time", "level", "message"} <= line.keys() for line in lines)
