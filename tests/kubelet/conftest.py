"""Fixtures of this folder: one cluster with this machine as its node, and one controller for all namespaces.

`make kubelet` runs these tests in namespaces of their own; elsewhere they are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import kubernetes_programs
from scripts.kubelet_settings import VARIABLE, Settings
from tests.cluster.api import Api
from tests.cluster.cluster import Cluster, make_cluster
from tests.cluster.pytest_hooks import RUNNING, new_namespace, report_with_logs
from tests.kubelet.jobs import Jobs
from tests.kubelet.node import Node
from tests.kubelet.outside import OutsideController, install_definitions
from tests.meta.tree import ROOT

pytest_runtest_makereport = report_with_logs


def pytest_runtest_setup(item: pytest.Item) -> None:
    if VARIABLE not in os.environ and item.get_closest_marker("kubelet"):
        pytest.skip("only in `make kubelet`")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The control plane with every controller, at the address of the Service `kubernetes`."""
    programs = kubernetes_programs.find_or_build(os.environ, ROOT)
    running = make_cluster(programs, tmp_path_factory.mktemp("cluster"))
    # There is no kube-proxy: the API server calls webhooks by the addresses behind their Services.
    running.api_server_flags = ["--enable-aggregator-routing=true"]
    running.port, running.address, running.controllers = 443, "0.0.0.0", ("*",)
    request.config.stash[RUNNING] = running
    try:
        running.start()
        running.start_controllers()
        running.start_scheduler()
        install_definitions(running)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> Iterator[Node]:
    settings = Settings.read(Path(os.environ[VARIABLE]))
    running = Node(cluster, settings, settings.folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def controller(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutsideController]:
    """A controller outside the cluster for all namespaces, with native gangs and leader election."""
    running = OutsideController(node.cluster, tmp_path_factory.mktemp("controller"))
    try:
        running.start()
        running.wait_until_it_leads()
        yield running
    finally:
        running.stop()


@pytest.fixture
def api(cluster: Cluster) -> Api:
    return cluster.api()


@pytest.fixture
def jobs(controller: OutsideController, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """The jobs of one test, in a namespace of its own that is deleted after the test."""
    jobs = Jobs(controller.cluster, new_namespace(controller.cluster, request.node.name))
    yield jobs
    jobs.remove_namespace()
