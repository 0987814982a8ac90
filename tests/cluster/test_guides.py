"""The guides for operators, typed line by line: a real API server, Deployment controller and `pumice` processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from pumice.engines.kubernetes.install import names
from scripts.kubernetes_programs import Programs
from tests.cluster.api import Object, eventually
from tests.cluster.cluster import CONTROLLERS, Cluster, make_cluster
from tests.cluster.guide_reader import Reader, commands
from tests.cluster.jobs import a_job
from tests.cluster.process_kubelet import EgressProxy, ProcessKubelet
from tests.cluster.webhooks import GROUP, KINDS, ca_bundles, configurations, dry_run

pytestmark = pytest.mark.needs("bash")
INVALID = a_job(plugins={"nosuch": []})
APPLY = "kubectl apply --server-side -f -"


@pytest.fixture(scope="module")
def own_cluster(
    kubernetes_programs_found: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, EgressProxy]]:
    """A cluster with Deployments and Services, on which nothing is installed."""
    if missing := [name for name in kubernetes_programs_found.missing() if name != "kube-scheduler"]:
        pytest.skip(f"{kubernetes_programs_found.origin} does not contain {', '.join(missing)}")
    proxy = EgressProxy()
    cluster = make_cluster(kubernetes_programs_found, tmp_path_factory.mktemp("guides"))
    cluster.api_server_flags = proxy.api_server_flags()
    cluster.controllers = (*CONTROLLERS, "deployment-controller", "replicaset-controller")
    try:
        cluster.start()
        cluster.start_controllers()
        yield cluster, proxy
    finally:
        cluster.stop()
        proxy.close()


@pytest.fixture
def reader(own_cluster: tuple[Cluster, EgressProxy], tmp_path: Path) -> Iterator[Reader]:
    cluster, proxy = own_cluster
    reader = Reader(cluster, tmp_path / "home")
    with ProcessKubelet(cluster, tmp_path, reader.home / "registry") as proxy.kubelet:
        yield reader


def policies(cluster: Cluster) -> set[str]:
    return {hook["failurePolicy"] for one in configurations(cluster, names.CONFIGURATION) for hook in one["webhooks"]}


def deployment(cluster: Cluster, name: str) -> Object:
    found: Object = cluster.api().call("GET", f"/apis/apps/v1/namespaces/{names.NAMESPACE}/deployments/{name}")
    return found


@pytest.mark.soak
def test_install_upgrade_and_uninstall(reader: Reader) -> None:
    cluster = reader.cluster

    # Without an image no pod starts; the check says why, and jobs can be created nevertheless.
    assert "warning: no --image" in reader.type(f"pumice install | {APPLY}")
    eventually("no image", lambda: "ErrImagePull" in reader.type("pumice install --check", code=1))
    assert dry_run(cluster, "default", a_job()).status == 201

    reader.follow("install.md", "Install")
    eventually("a job called the webhook", lambda: policies(cluster) == {"Fail"})
    assert dry_run(cluster, "default", INVALID).status == 422
    reader.follow("install.md", "Check the installation")

    # A roll-out that is stuck: the check reports it, and the old pods go on.
    reader.type("kubectl -n pumice-system scale deployment/pumice-webhook --replicas=1")
    reader.type(f"pumice install --upgrade --gang native --image registry.example/typo:1 | {APPLY}")
    found = eventually("no image", lambda: _stuck(reader.type("pumice install --check", code=1)))
    assert 'waits: ErrImagePull: failed to pull image "registry.example/typo:1": not found' in found
    assert dry_run(cluster, "default", INVALID).status == 422

    # What an operator chose survives an upgrade.
    reader.push("registry.example/pumice:0.2.0")
    reader.follow("install.md", "Upgrade")
    controller, webhook = deployment(cluster, names.CONTROLLER), deployment(cluster, names.WEBHOOK)
    assert (controller["spec"]["replicas"], webhook["spec"]["replicas"]) == (2, 1)
    [container] = controller["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/pumice:0.2.0"
    assert "--gang=native" in container["args"]

    with Creator(cluster) as creator:
        reader.follow("install.md", "Uninstall")
    assert creator.refused == []
    left = reader.type(
        "kubectl get all,role,rolebinding,clusterrole,clusterrolebinding -A -l app.kubernetes.io/name=pumice"
    )
    assert left.strip() == "No resources found"


@pytest.mark.soak
def test_outside_then_from_volcano_then_maintenance(reader: Reader) -> None:
    cluster = reader.cluster
    crds, controller, webhook = commands("install.md", "Run outside of the cluster")
    reader.type(crds)
    with reader.running(controller, until="leading"), reader.running(webhook, until="listening on"):
        eventually("the webhook is called", lambda: dry_run(cluster, "default", INVALID).status == 422)

    _install_volcano(cluster)
    first_check, *steps = commands("moving-from-volcano.md", "With the rest of Volcano")
    assert "volcano-system/volcano-controllers also serves Jobs" in reader.type(first_check, code=1)
    reader.push("registry.example/pumice:0.1.0")
    for command in steps:
        reader.type(command)
    assert configurations(cluster, VOLCANO_MUTATING) == configurations(cluster, VOLCANO_VALIDATING) == []

    before = ca_bundles(cluster, names.CONFIGURATION)
    with Creator(cluster) as creator:
        reader.follow("operations.md", "Webhook")
        eventually("a new authority", lambda: ca_bundles(cluster, names.CONFIGURATION) != before)
        reader.follow("operations.md", "Maintenance")
    assert creator.refused == []
    reader.follow("install.md", "Uninstall")


VOLCANO_MUTATING = "volcano-admission-service-jobs-mutate"
VOLCANO_VALIDATING = "volcano-admission-service-jobs-validate"


def _install_volcano(cluster: Cluster) -> None:
    """Create the objects of Volcano that the guide changes."""
    api, labels = cluster.api(), {"app": "volcano-controller"}
    cluster.make_namespace("volcano-system")
    container = {"name": "a", "image": "a", "args": ["--leader-elect=false"]}
    deployment = {
        "metadata": {"name": "volcano-controllers", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    api.call("POST", "/apis/apps/v1/namespaces/volcano-system/deployments", deployment)
    for kind, name in zip(KINDS, (VOLCANO_MUTATING, VOLCANO_VALIDATING), strict=True):
        api.call("POST", f"{GROUP}/{kind}", {"metadata": {"name": name}, "webhooks": []})


def _stuck(text: str) -> str:
    return text if text.count("ErrImagePull") == 2 else ""


class Creator:
    """Creates Jobs, as dry runs, until the end of a block."""

    def __init__(self, cluster: Cluster) -> None:
        self.refused: list[Object] = []
        self.created = 0
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self.created > 0

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            answer = dry_run(self._cluster, "default", a_job())
            if answer.status == 201:
                self.created += 1
            else:
                self.refused.append(answer.body)
