"""What a user of a cluster gets when something is in the way: one line each with what to do, and the exit code."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import pumice as api_of_pumice
from pumice.cli.main import main
from tests.cluster.api import Api, Object
from tests.cluster.cluster import Cluster, free_port
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.staged_jobs import RUNNING, StagedJob

MERGE = "application/merge-patch+json"


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def type_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    for name in ("KUBECONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PUMICE_ON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: str) -> Result:
        code = main(list(words))
        return Result(code, *capsys.readouterr())

    return run


Type = Callable[..., Result]


@pytest.fixture
def cluster_job(pumice_cluster: Cluster, api: Api, namespace: str) -> StagedJob:
    del pumice_cluster
    return StagedJob(api, namespace)


def _with_user(cluster: Cluster, path: Path, user: object) -> str:
    """Write a kubeconfig whose user has other credentials; return its name."""
    config = json.loads(cluster.kubeconfig().read_text())
    config["users"][0]["user"] = user
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return str(path)


def test_no_kubeconfig(type_command: Type) -> None:
    done = type_command("ps", "--on", "prod")
    assert done.code == 2
    assert done.err.startswith("no cluster to connect to: no kubeconfig is given, KUBECONFIG names none")


def test_not_in_a_pod(type_command: Type) -> None:
    done = type_command("ps", "--on", "in-cluster")
    assert done.code == 2
    assert done.err == "in-cluster: this is not a pod of a cluster; name a context of the kubeconfig\n"


def test_an_unknown_context(type_command: Type, cluster: Cluster) -> None:
    done = type_command("ps", "--on", "admim", "--kubeconfig", str(cluster.kubeconfig()))
    assert done.code == 2
    assert done.err.endswith("has no context 'admim'; there are: admin; did you mean admin?\n")


def test_a_kubeconfig_without_a_context(type_command: Type, cluster: Cluster) -> None:
    done = type_command("ps", "--kubeconfig", str(cluster.kubeconfig()))
    assert (done.code, done.err) == (
        2,
        "--kubeconfig: without a context, runs are local\n  hint: name one: --on CONTEXT\n",
    )


def test_credentials_that_expired(type_command: Type, pumice_cluster: Cluster, tmp_path: Path) -> None:
    path = _with_user(pumice_cluster, tmp_path / "config", {"token": "expired"})
    done = type_command("ps", "--on", "admin", "--kubeconfig", path)
    assert done.code == 1
    assert done.err == (
        "admin: the API server refused the credentials\n"
        "  hint: log in again, or check the user of the context in the kubeconfig\n"
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(["sh", "-c", "echo no ticket >&2; exit 3"], "failed with code 3: no ticket", id="fails"),
        pytest.param(["no-such-program"], "of the kubeconfig was not found", id="missing"),
    ],
)
def test_an_exec_plugin_that_does_not_work(
    type_command: Type, pumice_cluster: Cluster, tmp_path: Path, command: list[str], said: str
) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command[0], "args": command[1:]}
    path = _with_user(pumice_cluster, tmp_path / "config", {"exec": {**plugin, "interactiveMode": "Never"}})
    done = type_command("ps", "--on", "admin", "--kubeconfig", path)
    assert done.code == 1
    assert done.err == f"admin: the credential plugin '{command[0]}' {said}\n"


def test_an_exec_plugin_that_hangs(
    type_command: Type, pumice_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.engines.kubernetes.auth.exec_plugin._TIMEOUT", 0.5)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["600"]}
    path = _with_user(pumice_cluster, tmp_path / "config", {"exec": {**plugin, "interactiveMode": "Never"}})
    done = type_command("ps", "--on", "admin", "--kubeconfig", path)
    assert (done.code, done.err) == (1, "admin: the credential plugin 'sleep' did not answer in time\n")


def test_a_certificate_that_is_not_trusted(type_command: Type, pumice_cluster: Cluster, tmp_path: Path) -> None:
    config = json.loads(pumice_cluster.kubeconfig().read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path = tmp_path / "config"
    path.touch(0o600)
    path.write_text(json.dumps(config))
    done = type_command("ps", "--on", "admin", "--kubeconfig", str(path))
    assert done.code == 1
    [line] = done.err.splitlines()
    assert line.startswith(f"admin: the certificate of {pumice_cluster.server} is not trusted (")
    assert line.endswith("check certificate-authority and tls-server-name of the cluster in the kubeconfig")


# What the definition lets pass, and no rule of ours.
ODD_SPECS: dict[str, Object] = {
    "no spec": {},
    "tasks without names, pods or containers": {"tasks": [{"replicas": 3}, {"template": {}}]},
    "two tasks of one name": {"tasks": [{"name": "a", "replicas": 1}, {"name": "a", "replicas": 2}]},
    "a dependency on itself": {"tasks": [{"name": "a", "replicas": 1, "dependsOn": {"name": ["a", "b"]}}]},
    "more pods than any machine has": {"tasks": [{"name": "a", "replicas": 2_000_000_000}]},
    "a queue, a policy and a plugin that nobody knows": {
        "queue": "no.such.queue",
        "plugins": {"nope": ["--x"]},
        "policies": [{"event": "PodFailed", "action": "Dance", "timeout": "soon"}],
        "tasks": [{"name": "a", "replicas": 1}],
    },
}


@pytest.mark.parametrize("odd", ODD_SPECS)
def test_jobs_that_no_rule_of_ours_would_accept(
    type_command: Type, pumice_cluster: Cluster, api: Api, namespace: str, odd: str
) -> None:
    group = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "odd"}}
    made = api.create("Job", namespace, {**group, "spec": ODD_SPECS[odd]})
    flags = ("--on", "admin", "--kubeconfig", str(pumice_cluster.kubeconfig(namespace=namespace)))
    for status in ({}, {"state": {"phase": "Dancing"}, "running": 2**31 - 1}, {"state": {"phase": "Failed"}}):
        if status:
            answer = api.ask("PATCH", f"{_job_path(namespace)}/odd/status", {"status": status}, MERGE)
            # The definition may know the phases.
            assert answer.status in (200, 422)
        for words in (("ps",), ("ps", "-o", "json"), ("get", "odd"), ("why", "odd"), ("history", "odd")):
            done = type_command(*words, *flags)
            assert (done.code, done.err) == (0, ""), (words, done)
            assert "odd" in done.out or words[0] in ("why", "history")
        for other in (("logs", "odd"), ("wait", "odd", "--timeout", "1s"), ("why", "odd/a-0")):
            done = type_command(*other, *flags)
            assert done.code in (0, 2, 100, 124), (other, done)
            assert len(done.err.splitlines()) <= 2
    assert made["metadata"]["name"] == "odd"


def _job_path(namespace: str) -> str:
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"


def test_an_unknown_namespace(type_command: Type, pumice_cluster: Cluster) -> None:
    done = type_command("ps", "--on", "admin", "-n", "defualt", "--kubeconfig", str(pumice_cluster.kubeconfig()))
    assert done.code == 2
    assert done.err.startswith("defualt: no such namespace on admin\n")


def test_no_right_to_read_jobs(type_command: Type, pumice_cluster: Cluster) -> None:
    done = type_command("ps", "--on", "plain", "--kubeconfig", str(pumice_cluster.kubeconfig("plain")))
    assert done.code == 1
    assert done.err.startswith('plain: jobs.batch.volcano.sh is forbidden: User "plain" cannot list resource "jobs"')
    assert len(done.err.splitlines()) == 2


def test_a_right_to_read_jobs_and_nothing_else(
    type_command: Type, pumice_cluster: Cluster, api: Api, namespace: str
) -> None:
    job = StagedJob(api, namespace)
    job.phases("Pending", pending=2)
    for words in (
        ("create", "role", "reader", "--verb=get,list,watch", "--resource=jobs.batch.volcano.sh"),
        ("create", "rolebinding", "reader", "--role=reader", "--user=plain"),
    ):
        pumice_cluster.kubectl("-n", namespace, *words)
    flags = ("--on", "plain", "--kubeconfig", str(pumice_cluster.kubeconfig("plain", namespace=namespace)))
    assert type_command("ps", *flags).out.splitlines()[1].split()[:2] == ["train", "Waiting"]
    why = type_command("why", "train", *flags)
    assert why.code == 0
    assert "  not seen: pods, events, PodGroups, Queues (you have no right to list them)\n" in why.out
    logs = type_command("logs", "train", *flags)
    assert (logs.code, logs.err) == (
        1,
        "train: its pods are not readable for you\n  hint: ask for get, list and watch of pods\n",
    )
    nodes = type_command("nodes", *flags)
    assert (nodes.code, nodes.err.partition(":")[0]) == (1, "plain")


def test_a_cluster_without_the_definitions(type_command: Type, cluster: Cluster) -> None:
    """The definitions of another group stand for those of this one: other tests of this process install them."""
    with FaultProxy(cluster) as proxy:
        config = json.loads(cluster.kubeconfig(server=proxy.server).read_text())
        config["clusters"][0]["cluster"]["server"] += "/nothing"
        path = cluster.folder / "no-definitions.kubeconfig"
        path.touch(0o600)
        path.write_text(json.dumps(config))
        done = type_command("ps", "--on", "admin", "--kubeconfig", str(path))
    assert done.code == 2
    assert done.err == (
        "admin: the cluster has no Volcano Jobs: neither Pumice nor Volcano is installed there\n"
        "  hint: an administrator types: pumice install --image IMAGE | kubectl apply -f -\n"
    )


def test_an_api_server_that_is_not_there(type_command: Type, cluster: Cluster) -> None:
    path = cluster.kubeconfig(server=f"http://127.0.0.1:{free_port()}")
    done = type_command("ps", "--on", "admin", "--kubeconfig", str(path))
    assert done.code == 1
    assert done.err.startswith("admin: http://127.0.0.1:")
    assert len(done.err.splitlines()) == 1


def test_wait_survives_an_api_server_that_goes_away(
    type_command: Type, pumice_cluster: Cluster, api: Api, namespace: str
) -> None:
    job = StagedJob(api, namespace)
    job.phases(*RUNNING, running=2)
    ended = threading.Event()
    with FaultProxy(pumice_cluster) as proxy:
        path = pumice_cluster.kubeconfig(server=proxy.server, namespace=namespace)

        def cut_and_complete() -> None:
            while proxy.open_watches == 0:
                time.sleep(0.02)
            proxy.cut_watches()
            job.phases(*RUNNING, "Completed", succeeded=2)
            ended.set()

        cutter = threading.Thread(target=cut_and_complete)
        cutter.start()
        done = type_command("wait", "train", "--on", "admin", "--kubeconfig", str(path))
        cutter.join()
    assert ended.is_set()
    assert (done.code, done.out) == (0, "train Succeeded\n")


def test_the_context_of_the_environment_and_of_the_config_file(
    type_command: Type,
    pumice_cluster: Cluster,
    cluster_job: StagedJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig(namespace=cluster_job.namespace)))
    assert type_command("ps", "-o", "name").out == ""
    config = tmp_path / ".config" / "pumice" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('on = "admin"\n')
    assert type_command("ps", "-o", "name").out == "train\n"
    monkeypatch.setenv("PUMICE_ON", "local")
    assert type_command("ps", "-o", "name").out == ""
    assert type_command("ps", "-o", "name", "--context", "admin").out == "train\n"
    with api_of_pumice.Client() as client:
        assert client.runs() == []


def test_the_contexts_at_a_glance(
    type_command: Type, pumice_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = json.loads(pumice_cluster.kubeconfig().read_text())
    gone = {"name": "gone", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}
    config["clusters"].append(gone)
    config["contexts"].append({"name": "gone", "context": {"cluster": "gone", "user": "admin"}})
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("PUMICE_ON", "admin")
    items = json.loads(type_command("contexts", "-o", "json").out)["items"]
    assert [(each["name"], each["isDefault"], each["controller"]) for each in items] == [
        ("local", False, ""),
        ("admin", True, "none"),
        ("gone", False, ""),
    ]
    assert "cannot be reached" in items[2]["problem"]


def test_nodes_show_what_is_free(type_command: Type, pumice_cluster: Cluster) -> None:
    pumice_cluster.make_node("wide", cpu="8")
    done = type_command("nodes", "--on", "admin", "-o", "json", "--kubeconfig", str(pumice_cluster.kubeconfig()))
    [node] = [each for each in json.loads(done.out)["items"] if each["name"] == "wide"]
    assert (node["total"]["cpu"], node["free"]["cpu"]) == ("8", "8")
    pumice_cluster.api().delete("Node", "", "wide")


def test_python_reads_a_cluster(
    pumice_cluster: Cluster, api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = StagedJob(api, namespace)
    job.fail()
    monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig(namespace=namespace)))
    with api_of_pumice.connect("admin") as client:
        [run] = client.runs()
        assert (run.ref, run.uid) == ("train", job.uid)
        result = run.wait(check=False)
        assert (result.outcome, result.exit_code) == ("Failed", 3)
        assert [(pod.name, pod.phase, pod.code) for pod in run.pods()] == [
            ("worker-0", "Failed", 3),
            ("worker-1", "Running", None),
        ]
        assert run.why().code == "Failed"
