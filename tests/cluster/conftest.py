"""Fixtures of this folder: one real cluster per test process, one namespace per test.

All tests of this folder run in one process, except those that stop parts of the cluster; see tests/together.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from scripts import kubernetes_programs
from tests.cluster.api import Api
from tests.cluster.cluster import Cluster, free_port, make_cluster
from tests.cluster.controllers import Controllers, install
from tests.cluster.log_server import LogServer
from tests.cluster.pod_server import PodServer
from tests.cluster.pod_shell import Shell
from tests.cluster.pytest_hooks import RUNNING, new_namespace, report_with_logs
from tests.cluster.staged_jobs import RUNNING as RUNNING_JOB
from tests.cluster.staged_jobs import StagedJob
from tests.cluster.typed_commands import JOB, Pumice, set_user, typing
from tests.cluster.webhooks import Webhooks, install_webhook, uninstall_webhook
from tests.meta.tree import ROOT
from tests.together import CLUSTER

IN_CI = os.environ.get("CI") == "true"
pytest_runtest_makereport = report_with_logs


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the cluster after the last test of this folder: the servers are busy even without requests."""
    if nextitem is None or not nextitem.nodeid.startswith(CLUSTER):
        _stop_cluster(item.config)


def _stop_cluster(config: pytest.Config) -> None:
    running = config.stash.get(RUNNING, None)
    if running is not None:
        del config.stash[RUNNING]
        running.stop()


@pytest.fixture(scope="session")
def kubernetes_programs_found() -> kubernetes_programs.Programs:
    found = kubernetes_programs.find_or_wait(os.environ, ROOT)
    if found is None:
        _skip("the Kubernetes programs are not built; run make test")
    if "etcd" in found.missing() or "kube-apiserver" in found.missing() or "kubectl" in found.missing():
        _skip(f"{found.origin} does not contain {', '.join(found.missing())}")
    return found


@pytest.fixture(scope="session")
def cluster(
    kubernetes_programs_found: kubernetes_programs.Programs,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Cluster]:
    """etcd, API server and, if available, controller manager; for the scheduler see `scheduled`."""
    running = make_cluster(kubernetes_programs_found, tmp_path_factory.mktemp("cluster"))
    request.config.stash[RUNNING] = running
    try:
        running.start()
        if "kube-controller-manager" not in kubernetes_programs_found.missing():
            running.start_controllers()
        yield running
    finally:
        _stop_cluster(request.config)


@pytest.fixture
def garbage_collected(cluster: Cluster) -> Cluster:
    """The cluster, with garbage collection and namespace deletion."""
    if "kube-controller-manager" not in cluster.daemons:
        _skip(f"{cluster.programs.origin} does not contain kube-controller-manager")
    return cluster


@pytest.fixture
def scheduled(cluster: Cluster) -> Cluster:
    """The cluster with a scheduler, which the first test that uses it starts."""
    if "kube-scheduler" in cluster.programs.missing():
        _skip(f"{cluster.programs.origin} does not contain kube-scheduler")
    if "kube-scheduler" not in cluster.daemons:
        cluster.start_scheduler()
    return cluster


@pytest.fixture
def api(cluster: Cluster) -> Api:
    """The client of the administrator."""
    return cluster.api()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test, deleted after it."""
    name = new_namespace(cluster, request.node.name)
    yield name
    cluster.api().delete("Namespace", "", name)


@pytest.fixture(scope="session")
def pumice_cluster(cluster: Cluster) -> Cluster:
    """The cluster with the definitions and permissions of `pumice install`."""
    install(cluster)
    return cluster


@pytest.fixture
def controllers(pumice_cluster: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    """Starts controllers for a test."""
    starter = Controllers(pumice_cluster, tmp_path)
    yield starter
    starter.stop()


@pytest.fixture
def webhooks(pumice_cluster: Cluster, tmp_path: Path) -> Iterator[Webhooks]:
    """Starts webhooks for a test."""
    starter = Webhooks(pumice_cluster, tmp_path)
    yield starter
    starter.stop()


@pytest.fixture
def webhook_port(pumice_cluster: Cluster) -> Iterator[int]:
    """The port of a webhook that is installed but not started yet."""
    port = free_port()
    install_webhook(pumice_cluster, port)
    yield port
    uninstall_webhook(pumice_cluster)


def _skip(reason: str) -> NoReturn:
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def job(pumice_cluster: Cluster, api: Api, namespace: str) -> StagedJob:
    """A Job whose life the test plays."""
    del pumice_cluster
    return StagedJob(api, namespace)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def pods(pumice_cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[PodServer]:
    with PodServer(pumice_cluster, tmp_path / "pods", f"node-{namespace}") as server:
        server.add_node()
        yield server
        pumice_cluster.api().delete("Node", "", server.node)


@pytest.fixture
def job_with_pods(pods: PodServer, api: Api, namespace: str) -> StagedJob:
    """A Job whose pods run, on the node of `pods`."""
    made = StagedJob(api, namespace)
    made.run_pods()
    made.phases(*RUNNING_JOB, running=2)
    for index in (0, 1):
        pods.bind(namespace, f"train-worker-{index}")
        pods.pod_folder(f"train-worker-{index}")
    return made


@pytest.fixture
def shell(pumice_cluster: Cluster, namespace: str, home: Path, job_with_pods: StagedJob) -> Shell:
    del job_with_pods
    return Shell(pumice_cluster, namespace, home)


@pytest.fixture
def server(
    pumice_cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LogServer]:
    """The API server with logs; the context `admin` of the user."""
    with LogServer(pumice_cluster) as server:
        set_user(monkeypatch, tmp_path, pumice_cluster.kubeconfig(server=server.server, namespace=namespace))
        yield server


@pytest.fixture
def pumice(
    pumice_cluster: Cluster,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Pumice:
    """Types commands in a directory that has a Job file."""
    tmp_path.joinpath("job.yaml").write_text(JOB)
    return typing(pumice_cluster, namespace, tmp_path, monkeypatch, capsys)
