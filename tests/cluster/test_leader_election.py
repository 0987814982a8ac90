"""Leader election: one of several controllers leads, and another takes over, at once if the Lease is released."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pumice.engines.kubernetes.install import names
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, grant_lease, page, start_pumice
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, until_phase
from tests.cluster.processes import Daemon

NEEDED = "grant get and update on Lease pumice-controller-{}, create on Leases, get on Lease pumice-controller in "


@pytest.fixture
def leased(pumice_cluster: Cluster, namespace: str) -> str:
    """A namespace whose Lease the controller may use."""
    grant_lease(pumice_cluster, namespace)
    return namespace


def leads(daemon: Daemon) -> bool:
    return "leading" in daemon.log.read_text()


@pytest.mark.usefixtures("leased")
def test_a_released_lease_is_taken_over_at_once(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        # Real programs, which every other test takes a short cut to.
        first = controllers.start(namespace, elect=True, quickly=False)
        eventually("the first leads", lambda: leads(first))
        second = controllers.start(namespace, elect=True, quickly=False)
        eventually("the second waits", lambda: "waiting" in second.log.read_text())
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        assert not leads(second)
        # Nobody takes it meanwhile, so what the first one wrote last is to be read.
        second.pause()
        first.stop()
        lease = api.get("Lease", names.LEASE_NAMESPACE, f"{names.LEASE}-{namespace}")
        assert lease["spec"]["holderIdentity"] == ""
        second.resume()
        eventually("the second leads", lambda: leads(second))
        for index in range(2):
            kubelet.finish(f"train-worker-{index}")
        until_phase(api, namespace, "Completed")
        assert kubelet.created == 2


@pytest.mark.usefixtures("leased")
def test_a_leader_that_is_killed_is_replaced(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        first = controllers.start(namespace, elect=True)
        second = controllers.start(namespace, elect=True)
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
def other_namespace(pumice_cluster: Cluster) -> Iterator[str]:
    name = f"other-{os.urandom(3).hex()}"
    pumice_cluster.make_namespace(name)
    grant_lease(pumice_cluster, name)
    yield name
    pumice_cluster.api().delete("Namespace", "", name)


def leads_in(daemon: Daemon, namespace: str) -> bool:
    return f"leading namespace {namespace}\n" in daemon.log.read_text()


@pytest.mark.usefixtures("leased")
def test_controllers_with_overlapping_namespaces_serve_each_namespace_once(
    controllers: Controllers, api: Api, namespace: str, other_namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace), FakeKubelet(controllers.cluster, other_namespace):
        first = controllers.start(namespace, elect=True)
        eventually("it leads", lambda: leads_in(first, namespace))
        second = controllers.start(namespace, f"--namespace={other_namespace}", elect=True)
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


@pytest.mark.usefixtures("leased")
def test_a_controller_for_one_namespace_yields_to_one_for_all(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        one = controllers.start(namespace, elect=True)
        eventually("it leads", lambda: leads_in(one, namespace))
        everywhere = controllers.start("", elect=True)
        eventually("the other leads", lambda: leads(everywhere))
        eventually("it yields", lambda: "pumice-controller was taken by" in one.log.read_text())
        api.create("Job", namespace, a_job(replicas=1))
        until_phase(api, namespace, "Running")
        everywhere.stop()
        eventually("it leads again", lambda: one.log.read_text().count("leading namespace") > 1)
        api.create("Job", namespace, a_job("next", replicas=1))
        until_phase(api, namespace, "Running", "next")


def test_a_trial_continues_while_pumice_is_installed_and_uninstalled(
    garbage_collected: Cluster, controllers: Controllers, leased: str, tmp_path: Path
) -> None:
    """The first controller runs outside as an administrator; the second one as its Deployment starts it."""
    cluster, api = garbage_collected, garbage_collected.api()
    flags = (f"--kubeconfig={cluster.kubeconfig()}", "--gang=none", f"--namespace={leased}")
    outside = start_pumice(cluster, tmp_path / "outside.log", "controller", *flags)
    try:
        eventually("it leads", lambda: leads_in(outside, leased))
        installed = controllers.start(leased, elect=True)
        lease = api.get("Lease", names.LEASE_NAMESPACE, f"{names.LEASE}-{leased}")
        holder = lease["spec"]["holderIdentity"]
        waiting = f"waiting: {holder} holds Lease kube-system/pumice-controller-{leased}"
        eventually("the installed one waits, and names the holder", lambda: waiting in installed.log.read_text())
        assert page(installed, "/readyz") == "ok\n"
        assert "pumice_leader 0.0" in page(installed, "/metrics")
        with FakeKubelet(cluster, leased) as kubelet:
            api.create("Job", leased, a_job())
            until_phase(api, leased, "Running")
            installed.stop()
            for index in range(2):
                kubelet.finish(f"train-worker-{index}")
            until_phase(api, leased, "Completed")
            assert kubelet.created == 2
        assert not leads_in(installed, leased)
        assert outside.log.read_text().count("leading namespace") == 1
    finally:
        outside.stop()


def exit_code(daemon: Daemon) -> int | None:
    eventually("it ends", lambda: not daemon.alive)
    assert daemon.process is not None
    return daemon.process.poll()


def test_without_the_right_to_the_lease_it_ends_and_names_the_right(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    controller = controllers.start(namespace, elect=True)
    assert exit_code(controller) == 1
    assert NEEDED.format(namespace) in controller.log.read_text()


def test_a_leader_that_loses_the_right_to_the_lease_ends_and_names_it(
    controllers: Controllers, api: Api, leased: str
) -> None:
    leader = controllers.start(leased, elect=True)
    eventually("it leads", lambda: leads_in(leader, leased))
    controllers.cluster.kubectl("-n", names.LEASE_NAMESPACE, "delete", "rolebinding", f"{names.LEASE}-{leased}")
    assert exit_code(leader) == 1
    assert NEEDED.format(leased) in leader.log.read_text()
    # It could not release the Lease, which other tests would see.
    api.delete("Lease", names.LEASE_NAMESPACE, f"{names.LEASE}-{leased}")


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
