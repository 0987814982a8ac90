"""Leader election: one of several controllers leads, and another takes over, at once if the Lease is released."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pumice.engines.kubernetes.install import names
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, install, page, start_pumice
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, until_phase
from tests.cluster.processes import Daemon

ELECT = "--lease-namespace=pumice-system"


def leads(daemon: Daemon) -> bool:
    return "leading" in daemon.log.read_text()


def test_a_released_lease_is_taken_over_at_once(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        # Real programs, which every other test takes a short cut to.
        first = controllers.start(namespace, ELECT, quickly=False)
        eventually("the first leads", lambda: leads(first))
        second = controllers.start(namespace, ELECT, quickly=False)
        eventually("the second waits", lambda: "waiting" in second.log.read_text())
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        assert not leads(second)
        began = time.monotonic()
        first.stop()
        eventually("the second leads", lambda: leads(second))
        # An expired Lease would take 15 seconds.
        assert time.monotonic() - began < 12
        for index in range(2):
            kubelet.finish(f"train-worker-{index}")
        until_phase(api, namespace, "Completed")
        assert kubelet.created == 2


def test_a_leader_that_is_killed_is_replaced(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
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


@pytest.fixture
def other_namespace(cluster: Cluster) -> Iterator[str]:
    name = f"other-{os.urandom(3).hex()}"
    cluster.make_namespace(name)
    yield name
    cluster.api().delete("Namespace", "", name)


def leads_in(daemon: Daemon, namespace: str) -> bool:
    return f"leading namespace {namespace}\n" in daemon.log.read_text()


def test_controllers_with_overlapping_namespaces_serve_each_namespace_once(
    controllers: Controllers, api: Api, namespace: str, other_namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace), FakeKubelet(controllers.cluster, other_namespace):
        first = controllers.start(namespace, ELECT)
        eventually("it leads", lambda: leads_in(first, namespace))
        second = controllers.start(namespace, ELECT, f"--namespace={other_namespace}")
        eventually("the second serves the other namespace", lambda: leads_in(second, other_namespace))
        eventually(
            "the second waits for the first namespace",
            lambda: f"pumice-controller-{namespace}" in second.log.read_text(),
        )
        for each in (namespace, other_namespace):
            api.create("Job", each, a_job(replicas=1))
            until_phase(api, each, "Running")
        assert not leads_in(second, namespace)
        first.stop()
        eventually("it takes over", lambda: leads_in(second, namespace))
        api.create("Job", namespace, a_job("next", replicas=1))
        until_phase(api, namespace, "Running", "next")


def test_a_controller_for_one_namespace_yields_to_one_for_all(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        one = controllers.start(namespace, ELECT)
        eventually("it leads", lambda: leads_in(one, namespace))
        everywhere = controllers.start("", ELECT)
        eventually("the other leads", lambda: leads(everywhere))
        eventually("it yields", lambda: "pumice-controller was taken by" in one.log.read_text())
        api.create("Job", namespace, a_job(replicas=1))
        until_phase(api, namespace, "Running")
        everywhere.stop()
        eventually("it leads again", lambda: one.log.read_text().count("leading namespace") == 2)
        api.create("Job", namespace, a_job("next", replicas=1))
        until_phase(api, namespace, "Running", "next")


@pytest.mark.soak
def test_a_trial_goes_on_while_pumice_is_installed_and_uninstalled(
    garbage_collected: Cluster, controllers: Controllers, namespace: str, tmp_path: Path
) -> None:
    """The first controller runs outside as an administrator; the second one as its Deployment starts it."""
    cluster, api = garbage_collected, garbage_collected.api()
    api.delete("Namespace", "", names.NAMESPACE)
    eventually("Pumice is not installed", lambda: api.find("Namespace", "", names.NAMESPACE) is None)
    flags = (f"--kubeconfig={cluster.kubeconfig()}", "--gang=none", f"--namespace={namespace}")
    outside = start_pumice(cluster, tmp_path / "outside.log", "controller", *flags)
    try:
        eventually("it leads", lambda: leads_in(outside, namespace))
        install(cluster)
        installed = controllers.start(namespace, ELECT)
        eventually("the installed one waits", lambda: "waiting: " in installed.log.read_text())
        name = f"{names.LEASE}-{namespace}"
        eventually("it holds both Leases", lambda: api.find("Lease", names.NAMESPACE, name) is not None)
        with FakeKubelet(cluster, namespace) as kubelet:
            api.create("Job", namespace, a_job())
            until_phase(api, namespace, "Running")
            assert not leads_in(installed, namespace)
            assert "pumice_leader 0.0" in page(installed, "/metrics")
            # The documented uninstallation: the namespace goes, and with it the Lease there.
            installed.stop()
            api.delete("Namespace", "", names.NAMESPACE)
            eventually("it is gone", lambda: api.find("Namespace", "", names.NAMESPACE) is None)
            for index in range(2):
                kubelet.finish(f"train-worker-{index}")
            until_phase(api, namespace, "Completed")
            assert kubelet.created == 2
        assert outside.log.read_text().count("leading namespace") == 1
        outside.stop()
        # Another one, with the flag for a namespace that is gone, leads at once.
        outside = start_pumice(cluster, tmp_path / "again.log", "controller", *flags, ELECT)
        eventually("it leads", lambda: leads_in(outside, namespace))
    finally:
        outside.stop()
        install(cluster)


def test_health_and_metrics_are_served_on_loopback(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        controller = controllers.start(namespace, "--listen=127.0.0.1:0", "--log-format=json")

        api.create("Job", namespace, a_job(replicas=1))
        until_phase(api, namespace, "Running")
        assert (page(controller, "/healthz"), page(controller, "/readyz")) == ("ok\n", "ok\n")
        # Jobs are counted when the answer of the API server is there, after other clients may have seen the phase.
        eventually("it runs", lambda: 'pumice_jobs{phase="Running"} 1.0' in page(controller, "/metrics"))
        metrics = page(controller, "/metrics")
        assert "pumice_leader 1.0" in metrics
        assert "volcano_controller_job_to_pod_creation_latency_milliseconds_count 1.0" in metrics
        assert "train" not in metrics
        kubelet.finish("train-worker-0")
        until_phase(api, namespace, "Completed")
        completed = 'volcano_job_completed_phase_count{queue_name="default"} 1.0'
        eventually("it is counted", lambda: completed in page(controller, "/metrics"))
        lines = [json.loads(line) for line in controller.log.read_text().splitlines()]
        assert all({"time", "level", "message"} <= line.keys() for line in lines)
