"""The manifests of `pumice install` on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pumice.cli.main import main
from pumice.engines.kubernetes.gangs.choice import CHOICES
from pumice.engines.kubernetes.install import names
from tests.cluster.api import Api, Object, eventually, path_of
from tests.cluster.cluster import Cluster
from tests.cluster.jobs import a_job
from tests.cluster.volcano_definitions import volcano_definition

APPLY = ("apply", "--server-side", "-f", "-")


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["install", *flags]) == 0
    return capsys.readouterr().out


class TestManifests:
    @pytest.mark.parametrize("gang", CHOICES)
    def test_they_are_accepted(self, pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str], gang: str) -> None:
        text = printed(capsys, f"--gang={gang}")
        done = pumice_cluster.kubectl(*APPLY, "--dry-run=server", stdin=text)
        assert len(done.splitlines()) == text.count("\n---\n") + 1
        assert all(line.endswith("serverside-applied (server dry run)") for line in done.splitlines())

    def test_the_pods_meet_the_restricted_level(
        self, pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str], namespace: str
    ) -> None:
        level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        pumice_cluster.api().patch("Namespace", "", namespace, level)
        text = printed(capsys, f"--namespace={namespace}")
        for document in text.split("\n---\n"):
            if "\nkind: Deployment\n" in document:
                deployment = json.loads(
                    pumice_cluster.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", stdin=document)
                )
                pod = {**deployment["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
                pod["metadata"]["name"] = deployment["metadata"]["name"]
                # The ServiceAccount of the manifests is not applied here.
                pod["spec"]["serviceAccountName"] = "default"
                pumice_cluster.api().create("Pod", namespace, pod)

    def test_they_can_be_applied_twice(self, pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        text = printed(capsys, "--crds-only", "--gang=volcano")
        for _ in range(2):
            pumice_cluster.kubectl(*APPLY, stdin=text)


class TestDefinitions:
    def test_kubectl_explains_a_job(self, pumice_cluster: Cluster) -> None:
        def explained(path: str) -> str:
            return pumice_cluster.kubectl("explain", path, "--api-version=batch.volcano.sh/v1alpha1")

        containers = explained("job.spec.tasks.template.spec.containers")
        assert "FIELD: containers <[]Object>" in containers
        assert "livenessProbe\t<Object>" in containers
        assert "see kubectl explain pod.spec.containers" in containers
        assert "name\t<string> -required-" in containers
        assert "fail the job this long after it first ran" in explained("job.spec.activeDeadlineSeconds")
        assert "ENUM:" in explained("job.status.state.phase")

    def test_printer_columns(self, pumice_cluster: Cluster, namespace: str) -> None:
        api = pumice_cluster.api()
        api.create("Job", namespace, a_job())
        api.patch("Job", namespace, "train", {"status": {"state": {"phase": "Running"}, "running": 2}}, "status")
        header, row = pumice_cluster.kubectl("get", "vcjob", "-n", namespace, "-o", "wide").splitlines()
        assert header.split() == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"]
        assert row.split()[:3] == ["train", "Running", "2"]
        assert row.split()[-1] == "default"

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            pytest.param("image", 5, "must be of type string", id="wrong type"),
            pytest.param(
                "imagee", "a", 'unknown field "spec.tasks[0].template.spec.containers[0].imagee"', id="unknown field"
            ),
            pytest.param("resources", {"limits": {"cpu": "much"}}, "should match", id="invalid quantity"),
            pytest.param("env", [{"value": "a"}], "env[0].name: Required value", id="missing name"),
            pytest.param("env", [{"name": "A"}, {"name": "A"}], "Duplicate value", id="duplicate item"),
        ],
    )
    def test_templates_are_validated(
        self, pumice_cluster: Cluster, namespace: str, field: str, value: object, message: str
    ) -> None:
        job = a_job()
        job["spec"]["tasks"][0]["template"]["spec"]["containers"][0][field] = value
        path = path_of("Job", namespace) + "?fieldValidation=Strict"
        answer = pumice_cluster.api().ask("POST", path, job)
        assert answer.status in (400, 422)
        assert message in answer.body["message"]

    def test_server_side_apply_merges_a_template(self, pumice_cluster: Cluster, namespace: str) -> None:
        """Containers and their env are merged by name, as in a pod."""
        api = pumice_cluster.api()
        container = {"name": "main", "image": "a", "env": [{"name": "A", "value": "1"}]}
        api.create("Job", namespace, a_job(tasks=[{"name": "w", "template": {"spec": {"containers": [container]}}}]))
        path = path_of("Job", namespace, "train") + "?fieldManager=other&force=true"
        # The list of tasks is atomic, as in Volcano, so the patch has all of them.
        env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
        task = {"name": "w", "template": {"spec": {"containers": [container | {"env": env}]}}}
        applied = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": [task]}}
        made = api.call("PATCH", path, applied, "application/apply-patch+yaml")
        assert made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] == env

    def test_a_null_creation_timestamp_in_a_template_is_accepted(self, pumice_cluster: Cluster, namespace: str) -> None:
        job = a_job()
        job["spec"]["tasks"][0]["template"]["metadata"] = {"creationTimestamp": None, "labels": {"a": "b"}}
        path = path_of("Job", namespace) + "?fieldValidation=Strict"
        assert pumice_cluster.api().call("POST", path, job)


class TestBesideVolcano:
    """Replace our definitions by Volcano's, and back, while jobs exist."""

    @pytest.fixture
    def ours(self, pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
        text = printed(capsys, "--crds-only", "--gang=volcano")
        yield text
        pumice_cluster.kubectl(*APPLY, "--force-conflicts", stdin=text)
        eventually("our definitions are active", lambda: _keeps_suspend(pumice_cluster.api(), "default"))

    @pytest.mark.parametrize(
        "manager", [pytest.param("kubectl", id="kubectl"), pytest.param("helm", id="helm", marks=pytest.mark.soak)]
    )
    def test_definitions_can_be_replaced(
        self, pumice_cluster: Cluster, namespace: str, ours: str, manager: str
    ) -> None:
        api = pumice_cluster.api()
        job = api.create("Job", namespace, a_job(suspend=True))
        theirs = "\n---\n".join(json.dumps(volcano_definition(name)) for name in _names())
        pumice_cluster.kubectl(*APPLY, "--force-conflicts", f"--field-manager={manager}", stdin=theirs)
        eventually("Volcano's definitions are active", lambda: not _keeps_suspend(api, namespace))
        # The job still exists and can be changed.
        assert api.get("Job", namespace, "train")["metadata"]["uid"] == job["metadata"]["uid"]
        api.patch("Job", namespace, "train", {"metadata": {"labels": {"a": "b"}}})
        pumice_cluster.kubectl(*APPLY, "--force-conflicts", stdin=ours)
        eventually("our definitions are active", lambda: _keeps_suspend(api, namespace))
        again = api.patch("Job", namespace, "train", {"spec": {"suspend": True}})
        assert again["spec"]["suspend"] is True
        assert again["metadata"]["uid"] == job["metadata"]["uid"]


def _names() -> list[str]:
    return [
        "jobs.batch.volcano.sh",
        "commands.bus.volcano.sh",
        "podgroups.scheduling.volcano.sh",
        "queues.scheduling.volcano.sh",
    ]


def _keeps_suspend(api: Api, namespace: str) -> bool:
    made: Object = api.call("POST", path_of("Job", namespace) + "?dryRun=All", a_job("trial", suspend=True))
    return "suspend" in made["spec"]


# By method, with {ns} for the namespace of a user.
FORBIDDEN = {
    "GET": (
        "/api/v1/secrets /api/v1/nodes /api/v1/namespaces /apis/apps/v1/deployments "
        "/api/v1/namespaces/{ns}/secrets /api/v1/namespaces/{ns}/secrets/a /api/v1/namespaces/{ns}/secrets?watch=1 "
        "/api/v1/namespaces/{ns}/pods/a/log /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a "
        "/apis/rbac.authorization.k8s.io/v1/clusterroles /apis/apiextensions.k8s.io/v1/customresourcedefinitions "
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    ),
    "PUT": "/api/v1/namespaces/{ns}/secrets/a",
    "PATCH": "/api/v1/namespaces/{ns}/pods/a /apis/batch.volcano.sh/v1alpha1/namespaces/{ns}/jobs/a",
    "POST": (
        "/api/v1/namespaces/{ns}/pods/a/exec /api/v1/namespaces/{ns}/serviceaccounts/default/token "
        "/apis/batch.volcano.sh/v1alpha1/namespaces/{ns}/jobs /apis/bus.volcano.sh/v1alpha1/namespaces/{ns}/commands"
    ),
    "DELETE": ("/api/v1/namespaces/{ns} /api/v1/namespaces/{ns}/pods /api/v1/namespaces/{ns}/persistentvolumeclaims/a"),
}


@pytest.mark.parametrize("method", FORBIDDEN)
def test_forbidden_requests_of_the_controller(pumice_cluster: Cluster, namespace: str, method: str) -> None:
    api = pumice_cluster.api(pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER))
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    for path in FORBIDDEN[method].format(ns=namespace).split():
        assert api.ask(method, path, None if method == "GET" else {}, content).status == 403, path


def test_a_dry_run_patch_shows_whether_a_secret_exists(pumice_cluster: Cluster, namespace: str) -> None:
    api = pumice_cluster.api(pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER))
    path = path_of("Secret", namespace, "a") + "?dryRun=All"
    assert api.ask("PATCH", path, {}, "application/merge-patch+json").status == 404
    api.create("Secret", namespace, {"metadata": {"name": "a"}})
    assert api.ask("PATCH", path, {}, "application/merge-patch+json").status == 200
