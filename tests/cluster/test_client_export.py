"""`export` of a Job on a cluster, opened on this machine; and `top`, which needs metrics.k8s.io."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pumice
from pumice.cli.main import main
from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.staged_jobs import RUNNING, StagedJob, running, timestamp

Type = Callable[..., tuple[int, str, str]]
METRICS = "/apis/metrics.k8s.io/v1beta1"


@pytest.fixture
def server(server: LogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogServer:
    """Commands write to the directory of the test."""
    monkeypatch.chdir(tmp_path)
    return server


@pytest.fixture
def type_command(capsys: pytest.CaptureFixture[str]) -> Type:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        return code, *capsys.readouterr()

    return run


def _with_secrets(job: StagedJob) -> None:
    """As kubectl applies a Job: with the whole file in an annotation."""
    [task] = job.manifest["spec"]["tasks"]
    [container] = task["template"]["spec"]["containers"]
    container["env"] = [{"name": "API_KEY", "value": "hunter2"}, {"name": "EPOCHS", "value": "3"}]
    container["args"] = ["--token", "hunter2"]
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(job.manifest)}
    job.api.delete("Job", job.namespace, job.name)
    eventually("it is gone", lambda: job.api.find("Job", job.namespace, job.name) is None)
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    metadata = {"name": job.name, "annotations": annotations}
    body = {**head, "metadata": metadata, "spec": {"tasks": [task], "maxRetry": 3}}
    job.manifest = job.api.create("Job", job.namespace, body)


def test_an_exported_job_is_opened_on_this_machine(server: LogServer, job: StagedJob, type_command: Type) -> None:
    _with_secrets(job)
    job.fail()
    job.event("FailedCreate", "exceeded quota: small")
    for index, texts in enumerate((["a", "c", "\x1b[31mred \udcff"], ["b", "d"])):
        lines = [(f"2026-11-18T12:00:0{2 * at + index}.000000001Z", text) for at, text in enumerate(texts)]
        server.outputs[f"train-worker-{index}", False] = ContainerOutput(lines)
    code, out, err = type_command("export", "train", "--on", "admin")
    assert (code, out) == (0, "train.tar.gz\n"), err
    archive = Path("train.tar.gz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        content = b"".join(file.read() for each in packed if (file := packed.extractfile(each)) is not None)
    assert b"API_KEY" in content
    assert b"hunter2" not in content

    code, out, err = type_command("open", "train.tar.gz")
    assert (code, out) == (0, "train:1@file\n"), err
    _, there, _ = type_command("why", "train", "--on", "admin")
    code, here, _ = type_command("why", "train:1@file")
    assert code == 0
    assert here.splitlines()[0] == there.splitlines()[0]
    assert "pumice logs train:1@file/worker-0 -c main --tail 30" in here
    for flags in ((), ("--tail", "2"), ("--attempt", "1"), ("--pod", "worker-1"), ("-t",)):
        assert (
            type_command("logs", "train:1@file", *flags)[:2]
            == type_command("logs", "train", "--on", "admin", *flags)[:2]
        )
    code, out, _ = type_command("get", "train:1@file", "-o", "json")
    assert (code, json.loads(out)["metadata"]["uid"]) == (0, job.uid)
    _, out, _ = type_command("get", "train:1@file", "-o", "yaml")
    assert "metadata:\n  name: train\n  namespace: " in out
    assert not re.search(r"^(status|  uid|  creationTimestamp):", out, re.MULTILINE)
    assert "WarningIssued FailedCreate: exceeded quota" in type_command("history", "train:1@file", "--events")[1]
    assert type_command("get", "train:1@file", "--exit-code")[0] == 100
    _, out, _ = type_command("ps", "-a", "-o", "json")
    assert [each["run"] for each in json.loads(out)["items"]] == ["train:1@file"]


def test_a_job_that_goes_on_is_exported_without_logs(server: LogServer, job: StagedJob, type_command: Type) -> None:
    job.run_pods()
    job.phases(*RUNNING, running=2)
    server.outputs["train-worker-0", False] = ContainerOutput([("2026-11-18T12:00:00Z", "a")])
    code, _, err = type_command("export", "train", "--on", "admin", "--no-logs", "-o", "a.tar.gz")
    assert (code, err) == (0, "")
    assert server.asked == []
    code, out, _ = type_command("open", "a.tar.gz")
    assert (code, out) == (0, "train:1@file\n")
    assert "had not ended when it was exported" in type_command("why", "train:1@file")[1]


def test_without_metrics_top_says_who_installs_them(server: LogServer, job: StagedJob, type_command: Type) -> None:
    job.run_pods()
    job.phases(*RUNNING, running=2)
    del server
    for words in (("top", "train"), ("top",)):
        code, out, err = type_command(*words, "--on", "admin")
        assert (code, out) == (1, "")
        assert err == (
            "admin: what pods use is not known: an administrator installs metrics-server, which serves metrics.k8s.io\n"
        )


@pytest.fixture
def metrics(pumice_cluster: Cluster) -> Iterator[Api]:
    """Objects of a definition of that name: the server of metrics needs nodes."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"plural": "pods", "kind": "PodMetrics"},
            "scope": "Namespaced",
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    api = pumice_cluster.api()
    pumice_cluster.kubectl("create", "-f", "-", stdin=json.dumps(definition))
    eventually("metrics are served", lambda: api.ask("GET", f"{METRICS}/pods").status == 200)
    yield api
    pumice_cluster.kubectl("delete", "crd", "pods.metrics.k8s.io")
    eventually("metrics are gone", lambda: api.ask("GET", f"{METRICS}/pods").status == 404)


def _measure(api: Api, job: StagedJob, index: int, *usages: Object) -> None:
    metadata = {"name": f"train-worker-{index}", "labels": {"volcano.sh/job-name": job.name}}
    containers = [{"name": f"c{number}", "usage": usage} for number, usage in enumerate(usages)]
    body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": metadata}
    more = {"timestamp": timestamp(), "window": "15s", "containers": containers}
    assert api.ask("POST", f"{METRICS}/namespaces/{job.namespace}/pods", {**body, **more}).status == 201


def test_top_shows_what_pods_use(server: LogServer, job: StagedJob, metrics: Api, type_command: Type) -> None:
    del server
    job.run_pods()
    job.phases(*RUNNING, running=2)
    _measure(metrics, job, 0, {"cpu": "250m", "memory": "64Mi"}, {"cpu": "1250000000n", "memory": "65536Ki"})
    code, out, _ = type_command("top", "train", "--on", "admin")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["RUN", "POD", "CPU", "MEMORY"],
        ["train", "worker-0", "1.50", "128", "MiB"],
    ]
    _, out, _ = type_command("top", "--on", "admin", "-o", "json")
    [item] = json.loads(out)["items"]
    assert (item["run"], item["pod"], item["cpu"], item["memory"]) == ("train", "worker-0", 1.5, 128 << 20)
    with pumice.connect("admin") as client:
        assert [sample.pod for sample in client.get("train").top()] == ["worker-0"]


def test_a_job_without_pods_uses_nothing(server: LogServer, job: StagedJob, metrics: Api, type_command: Type) -> None:
    del server, metrics
    job.pod(0, "Pending", running())
    job.phases("Pending", pending=2)
    code, out, err = type_command("top", "train", "--on", "admin")
    assert (code, out, err) == (0, "", "no pod runs\n")
