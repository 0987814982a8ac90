"""`pumice validate --on`: what a real API server would refuse, with the line of the file. Nothing is created."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pumice.cli.main import main
from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.jobs import a_job
from tests.cluster.staged_cluster import SIGNATURE, Setup, refusing_webhook
from tests.cluster.typed_commands import typing


class Result(NamedTuple):
    code: int
    findings: list[Object]
    err: str


Validate = Callable[..., Result]


@pytest.fixture
def validate(
    pumice_cluster: Cluster,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Validate:
    """Validate a Job on the cluster, as a user, by default the administrator."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(job: Object, *extra: Object, user: str = "admin") -> Result:
        file = tmp_path / "job.yaml"
        file.write_text("\n---\n".join(json.dumps(each) for each in (job, *extra)))
        config = str(pumice_cluster.kubeconfig(user))
        code = main(["validate", str(file), "--json", "--on", user, "-n", namespace, "--kubeconfig", config])
        out = capsys.readouterr()
        return Result(code, [json.loads(line) for line in out.out.splitlines()], out.err)

    return run


@pytest.fixture
def worker_node(pumice_cluster: Cluster) -> Iterator[None]:
    """A node without taints, and with room."""
    api = pumice_cluster.api()
    api.create("Node", "", {"metadata": {"name": "validated"}})
    room = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    api.patch("Node", "", "validated", {"status": {"capacity": room, "allocatable": room}}, "status")
    api.patch("Node", "", "validated", {"spec": {"taints": None}})
    yield
    api.delete("Node", "", "validated")


@pytest.fixture
def config_map(worker_node: None, api: Api, namespace: str) -> None:
    api.create("ConfigMap", namespace, {"metadata": {"name": "given"}, "data": {"rate": "0.1"}})


def _with_pod(**fields: object) -> Object:
    job = a_job()
    job["spec"]["tasks"][0]["template"]["spec"] |= fields
    return job


def _with_container(**fields: object) -> Object:
    job = a_job()
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0] |= fields
    return job


_POD = "spec.tasks[0].template.spec"


def _only(result: Result) -> tuple[str, str]:
    """Return path and message of the only finding."""
    (finding,) = [each for each in result.findings if each["severity"] == "error"]
    assert result.code == 2
    assert finding["line"] == 1
    return finding["path"], finding["message"]


def test_a_job_that_the_cluster_takes(validate: Validate, api: Api, namespace: str, worker_node: None) -> None:
    result = validate(a_job())
    assert (result.code, result.findings) == (0, [])
    assert "train: good on admin (2 pods)" in result.err
    assert api.list("Job", namespace) == api.list("Pod", namespace) == []


def test_a_job_of_a_name_that_exists(validate: Validate, api: Api, namespace: str, worker_node: None) -> None:
    api.create("Job", namespace, a_job())
    assert validate(a_job()).code == 0


@pytest.mark.parametrize(
    ("job", "finding"),
    [
        pytest.param(
            _with_pod(serviceAccountName="robot"),
            (f"{_POD}.serviceAccountName", "there is no such ServiceAccount on this cluster"),
            id="service-account",
        ),
        pytest.param(
            a_job(priorityClassName="urgent"),
            ("spec.priorityClassName", "there is no such PriorityClass on this cluster"),
            id="priority-class",
        ),
        pytest.param(
            _with_container(envFrom=[{"secretRef": {"name": "tokens"}}]),
            (f"{_POD}.containers[0].envFrom[0].secretRef.name", "there is no Secret of this name in "),
            id="secret",
        ),
        pytest.param(
            _with_container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "given", "key": "lr"}}}]),
            (f"{_POD}.containers[0].env[0].valueFrom.configMapKeyRef.name", "this ConfigMap has no key lr"),
            id="key",
        ),
        pytest.param(
            _with_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
            (
                f"{_POD}.volumes[0].persistentVolumeClaim.claimName",
                "there is no PersistentVolumeClaim of this name ",
            ),
            id="claim",
        ),
        pytest.param(
            _with_pod(nodeSelector={"disktype": "nvme"}),
            (_POD, "no node takes such a pod: "),
            id="selector",
        ),
        pytest.param(
            _with_container(resources={"requests": {"cpu": "500"}}),
            (_POD, "no node is large enough: a pod wants 500 of cpu, "),
            id="too-large",
        ),
        pytest.param(
            _with_container(resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}),
            (_POD, "no node is large enough: a pod wants 1 of nvidia.com/gpu, "),
            id="gpu",
        ),
        pytest.param(
            _with_pod(runtimeClassName="gvisor"),
            ("spec.tasks[0].template", "the API server refuses it: "),
            id="runtime-class",
        ),
    ],
)
def test_what_is_missing(validate: Validate, config_map: None, job: Object, finding: tuple[str, str]) -> None:
    path, message = _only(validate(job))
    assert path == finding[0]
    assert message.startswith(finding[1])


def test_what_the_file_brings_along_is_not_missing(validate: Validate, worker_node: None) -> None:
    tokens = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tokens"}, "stringData": {"a": "b"}}
    job = _with_container(envFrom=[{"secretRef": {"name": "tokens"}}])
    assert validate(job, tokens).code == 0


def test_a_gang_larger_than_the_quota(validate: Validate, api: Api, namespace: str, worker_node: None) -> None:
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "1"}}}
    api.create("ResourceQuota", namespace, quota)
    result = validate(a_job(minAvailable=2))
    found = {(each["path"], each["message"]) for each in result.findings}
    assert ("spec.minAvailable", "the gang needs 2 of pods, ResourceQuota team grants 1") in found


def test_pod_security(validate: Validate, api: Api, namespace: str, worker_node: None) -> None:
    api.patch("Namespace", "", namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    path, message = _only(validate(_with_pod(hostNetwork=True)))
    assert path == _POD
    assert message.startswith(f"PodSecurity baseline:latest of namespace {namespace} refuses the pods: host namespaces")


def test_a_user_who_may_read_nothing(validate: Validate) -> None:
    result = validate(_with_container(envFrom=[{"secretRef": {"name": "tokens"}}]), user="plain")
    assert result.code == 2
    errors = [each["message"] for each in result.findings if each["severity"] == "error"]
    assert errors == [next(each for each in errors if each.startswith("you have no right to create Jobs in "))]
    assert len(result.findings) > 3, "what could not be asked is named"


def test_an_error_of_the_file_is_reported_without_the_cluster(validate: Validate) -> None:
    path, _ = _only(validate(a_job(minAvailable=-1)))
    assert path == "spec.minAvailable"


def test_a_namespace_without_a_context(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "job.yaml", "-n", "team"]) == 2
    assert capsys.readouterr().err == "-n: names no cluster by itself\n  hint: add --on CONTEXT\n"


def test_queues(validate: Validate, pumice_cluster: Cluster, namespace: str, worker_node: None) -> None:
    at = Setup(pumice_cluster, namespace)
    try:
        for name, state in (("team", "Open"), ("closed", "Closed")):
            at.queue(f"{name}-of-{namespace}"[:50].rstrip("-"), state=state)
        [team, closed] = [f"{name}-of-{namespace}"[:50].rstrip("-") for name in ("team", "closed")]
        assert validate(a_job(queue=team)).code == 0
        assert _only(validate(a_job(queue=closed))) == ("spec.queue", "the Queue is Closed and takes no Jobs")
        assert _only(validate(a_job(queue=f"{team}x"))) == ("spec.queue", "there is no such Queue on this cluster")
    finally:
        at.close()


def test_a_policy_refuses_the_pods(
    validate: Validate, pumice_cluster: Cluster, namespace: str, worker_node: None
) -> None:
    at = Setup(pumice_cluster, namespace)
    with refusing_webhook(pumice_cluster) as url:
        at.webhook(url)
        try:
            pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
            path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
            eventually("the policy is in force", lambda: at.api.ask("POST", path, pod).status == 400)
            path, message = _only(validate(a_job()))
        finally:
            at.close()
    assert path == _POD
    assert SIGNATURE in message


def test_a_limit_range_and_a_full_quota(validate: Validate, api: Api, namespace: str, worker_node: None) -> None:
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    api.create("LimitRange", namespace, {"metadata": {"name": "small"}, "spec": {"limits": limits}})
    path, message = _only(validate(_with_container(resources={"limits": {"cpu": "2"}})))
    assert path == _POD
    assert "LimitRange" in message or "maximum cpu usage per Container is 1" in message


def test_a_pull_secret_that_is_missing_is_a_warning(validate: Validate, worker_node: None) -> None:
    result = validate(_with_pod(imagePullSecrets=[{"name": "registry"}]))
    assert result.code == 0
    [finding] = result.findings
    assert (finding["severity"], finding["path"]) == ("warning", f"{_POD}.imagePullSecrets[0].name")


def test_what_may_change_is_a_warning_of_submit(
    pumice_cluster: Cluster,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What `validate` refuses, and may get better by waiting, does not stop a submission."""
    pumice = typing(pumice_cluster, namespace, tmp_path, monkeypatch, capsys)
    job = _with_pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    tmp_path.joinpath("job.yaml").write_text(json.dumps(job))
    done = pumice("submit", "job.yaml")
    assert (done.code, done.out) == (0, "train\n")
    path = f"{_POD}.volumes[0].persistentVolumeClaim.claimName"
    assert f"job.yaml:1: warning: {path}: data: there is no PersistentVolumeClaim of this name" in done.err
