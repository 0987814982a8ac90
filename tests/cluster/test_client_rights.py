"""A user who may not read a layer, or nothing but Jobs: every command says what it cannot see, and answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import yaml

from pumice.cli.main import main
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.staged_cluster import GPU, Setup, unschedulable
from tests.cluster.staged_jobs import RUNNING, StagedJob, running, terminated
from tests.meta.tree import ROOT

ROLES = ROOT / "examples" / "roles" / "cluster-user.yaml"
NO_NODE = f"0/2 nodes are unavailable: 2 Insufficient {GPU}."
# What each right is called in RBAC, and what a message calls the layer without it.
LAYERS = {
    "pods": ("pods",),
    "events": ("events",),
    "podgroups.scheduling.volcano.sh": ("PodGroups",),
    "queues.scheduling.volcano.sh": ("Queues",),
    "persistentvolumeclaims": ("PersistentVolumeClaims",),
    "nodes": ("nodes",),
    "leases.coordination.k8s.io": ("Leases of controllers",),
}
Grant = Callable[[Sequence[str]], None]


def _is_readable(user: Api, kind: str) -> bool:
    return user.ask("GET", f"/api/v1/{kind}").status == 200


@pytest.fixture
def grant(pumice_cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Grant]:
    """Give the user `plain` the right to read some resources in the whole cluster; type commands as this user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig("plain", namespace=namespace)))
    monkeypatch.setenv("PUMICE_ON", "plain")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    plain = pumice_cluster.api("plain-token")

    def give(resources: Sequence[str]) -> None:
        pumice_cluster.kubectl(
            "create", "clusterrole", namespace, "--verb=get,list,watch", f"--resource={','.join(resources)}"
        )
        pumice_cluster.kubectl("create", "clusterrolebinding", namespace, f"--clusterrole={namespace}", "--user=plain")
        # The authorizer learns of a right from a watch.
        path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
        eventually("the right is in force", lambda: plain.ask("GET", path).status == 200)

    yield give
    pumice_cluster.kubectl("delete", "clusterrolebinding,clusterrole", namespace, "--ignore-not-found")


@pytest.mark.parametrize("missing", LAYERS)
def test_why_without_the_right_to_one_layer(
    grant: Grant, pumice_cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    at = Setup(pumice_cluster, namespace)
    at.queue(f"queue-of-{namespace}"[:63].rstrip("-"))
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    job = at.job(2, pod_spec=claim, queue=f"queue-of-{namespace}"[:63].rstrip("-"))
    at.claim("data")
    if not missing.startswith("leases"):
        at.pod_group(job, "Pending", unschedulable("2/2 tasks in gang unschedulable: 2 Pending, 2 minAvailable"))
        job.unscheduled_pod(0, NO_NODE)
        job.phases("Pending", pending=1)
    grant([name for name in ("jobs.batch.volcano.sh", *LAYERS) if name != missing])
    try:
        assert main(["why", "train", "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        unseen = [hint["text"] for hint in found["hints"] if hint["text"].startswith("not seen: ")]
        layers = LAYERS[missing] + (("pods of all namespaces",) if missing == "pods" else ())
        assert any(name in text for text in unseen for name in layers), found
        assert len(unseen) == 1
        assert found["message"]
        assert main(["why", "train"]) == 0
        assert "Traceback" not in capsys.readouterr().err
    finally:
        at.close()


def test_the_right_to_read_jobs_and_nothing_else(
    grant: Grant, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = StagedJob(api, namespace)
    job.phases(*RUNNING, "Failed", failed=1, reason="PodFailed", message="worker-0 failed first: exit code 3")
    grant(["jobs.batch.volcano.sh"])
    denied = "pods are not readable for you"
    answers: dict[tuple[str, ...], tuple[int, str]] = {
        ("ps",): (0, "train"),
        ("ps", "-A", "-o", "name"): (0, "train"),
        ("get", "train"): (0, "name: train"),
        ("get", "train", "--exit-code", "-o", "json"): (100, '"Failed"'),
        ("wait", "train"): (100, "worker-0 failed first: exit code 3"),
        ("why", "train"): (0, "not seen: "),
        ("history", "train"): (0, "ATTEMPT"),
        ("history", "train", "--events"): (0, "PhaseChanged Failed"),
        ("attach", "train"): (1, "worker-0 failed first"),
        ("logs", "train"): (1, denied),
        ("nodes",): (1, "cannot list resource"),
        ("contexts",): (0, "plain"),
    }
    for words, (code, said) in answers.items():
        assert main(list(words)) == code, words
        shown = capsys.readouterr()
        assert said in shown.out + shown.err, (words, shown)
        assert "Traceback" not in shown.err


def test_a_running_job_is_followed_without_the_right_to_pods(
    grant: Grant, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import threading

    job = StagedJob(api, namespace)
    job.phases(*RUNNING, running=2)
    grant(["jobs.batch.volcano.sh"])
    timer = threading.Timer(1.0, job.phases, [*RUNNING, "Completed"], {"succeeded": 2})
    timer.start()
    assert main(["attach", "train"]) == 0
    timer.join()
    assert "what its pods print is not shown: pods are not readable for you" in capsys.readouterr().err


def test_the_roles_of_the_examples_suffice(
    pumice_cluster: Cluster,
    namespace: str,
    grant: Grant,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the page says: kubectl apply, bind both to a user. Then nothing is unseen."""
    del grant
    at = Setup(pumice_cluster, namespace)
    documents = list(yaml.safe_load_all(ROLES.read_text()))
    pumice_cluster.kubectl("apply", "-f", str(ROLES))
    names = [document["metadata"]["name"] for document in documents]
    view, _, cluster_view = names
    bind = (f"--clusterrole={view}", "--user=plain")
    pumice_cluster.kubectl("-n", namespace, "create", "rolebinding", "viewers", *bind)
    bind = (f"--clusterrole={cluster_view}", "--user=plain")
    pumice_cluster.kubectl("create", "clusterrolebinding", namespace, *bind)
    plain = pumice_cluster.api("plain-token")
    try:
        with LogServer(pumice_cluster) as server:
            config = pumice_cluster.kubeconfig("plain", server=server.server, namespace=namespace)
            monkeypatch.setenv("KUBECONFIG", str(config))
            job = at.job(1)
            job.phases("Pending", pending=1)
            at.pod_group(job, "Pending")
            job.unscheduled_pod(0, NO_NODE)
            for kind in ("nodes", f"namespaces/{namespace}/pods"):
                eventually("the right is in force", partial(_is_readable, plain, kind))
            assert main(["why", "train"]) == 0
            assert "not seen" not in capsys.readouterr().out
            assert main(["nodes"]) == 0
            job.pod(0, "Running", running())
            job.pod(0, "Succeeded", terminated(0))
            job.phases(*RUNNING, "Completed", succeeded=1)
            server.outputs["train-worker-0", False] = ContainerOutput([("2026-11-18T12:00:01Z", "hello")])
            assert main(["logs", "train", "-f", "--no-prefix"]) == 0
            assert capsys.readouterr().out.endswith("hello\n")
    finally:
        pumice_cluster.kubectl("delete", "clusterrolebinding", namespace)
        pumice_cluster.kubectl("delete", "-f", str(ROLES))
        at.close()
