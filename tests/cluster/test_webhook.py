"""The webhook, called by a real API server: findings, defaults, registration, certificates."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator

import pytest

from pumice.engines.kubernetes.install import names
from tests.cluster.api import Api, Object, RefusedError, eventually, path_of
from tests.cluster.cluster import Cluster, free_port
from tests.cluster.controllers import install
from tests.cluster.jobs import a_job
from tests.cluster.volcano_definitions import volcano_definition
from tests.cluster.webhooks import (
    Webhooks,
    ca_bundles,
    configurations,
    dry_run,
    install_webhook,
    port_of,
    wait_until_called,
    wait_until_serving,
)
from tests.patience import PATIENCE

OUTSIDE = names.OUTSIDE_CONFIGURATION
SECRET = names.certificates(names.WEBHOOK)


def invalid_job() -> Object:
    """Return a Job with four errors, of which the schema finds one."""
    job = a_job(minAvailable=9, plugins={"nosuch": [], "svc": ["--nosuch"]})
    job["spec"]["tasks"][0]["policies"] = [{"event": "PodFaild", "action": "RestartJob"}]
    return job


INVALID_FIELDS = {"spec.minAvailable", "spec.plugins.nosuch", "spec.plugins.svc[0]", "spec.tasks[0].policies[0].event"}


@pytest.fixture(scope="class")
def with_webhook(pumice_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster with a webhook that all tests of a class share."""
    starter = Webhooks(pumice_cluster, tmp_path_factory.mktemp("webhook"))
    starter.start_outside()
    wait_until_called(pumice_cluster, "default", invalid_job())
    yield pumice_cluster
    starter.stop()


class TestReviews:
    def test_an_invalid_job_is_rejected_with_all_findings(self, with_webhook: Cluster, namespace: str) -> None:
        with pytest.raises(RefusedError) as refused:
            with_webhook.api().create("Job", namespace, invalid_job())
        assert refused.value.status == 422
        details = refused.value.body["details"]
        assert {cause["field"] for cause in details["causes"]} == INVALID_FIELDS
        message = refused.value.body["message"]
        assert all(field in message for field in INVALID_FIELDS)
        assert "did you mean PodFailed?" in message
        assert with_webhook.api().find("Job", namespace, "train") is None

    def test_defaults_are_set(self, with_webhook: Cluster, namespace: str) -> None:
        job = a_job(plugins={"pytorch": ["--master=worker", "--worker=worker"]})
        del job["spec"]["tasks"][0]["name"]
        job["spec"]["plugins"] = {"tensorflow": ["--worker=default0"], "env": None}
        made = with_webhook.api().create("Job", namespace, job)["spec"]
        assert (made["queue"], made["schedulerName"], made["maxRetry"]) == ("default", "volcano", 3)
        assert made["minAvailable"] == 2
        task = made["tasks"][0]
        assert (task["name"], task["minAvailable"], task["maxRetry"]) == ("default0", 2, 3)
        assert set(made["plugins"]) == {"tensorflow", "env", "svc"}

    def test_fractional_quantities_are_accepted(self, with_webhook: Cluster, namespace: str) -> None:
        job = a_job()
        container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"cpu": 0.5}}
        made = with_webhook.api().create("Job", namespace, job)
        container = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        assert container["resources"] == {"limits": {"cpu": "0.5"}}

    def test_updates_are_compared_with_the_old_job(self, with_webhook: Cluster, namespace: str) -> None:
        api = with_webhook.api()
        job = api.create("Job", namespace, a_job())
        job["spec"]["tasks"][0]["replicas"] = 3
        job = api.replace("Job", namespace, job)
        # Fewer than at first, when a default filled in minAvailable: the refusal has the patch that does it.
        path = path_of("Job", namespace, "train")
        replicas = {"op": "replace", "path": "/spec/tasks/0/replicas", "value": 1}
        with pytest.raises(RefusedError) as refused:
            api.call("PATCH", path, [replicas], "application/json-patch+json")
        command = re.search(r"patch vcjob train --type=json -p '(.*)'", refused.value.body["message"])
        assert command is not None
        job = api.call("PATCH", path, json.loads(command[1]), "application/json-patch+json")
        spec = job["spec"]
        assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["tasks"][0]["minAvailable"]) == (1, 1, 1)
        job["spec"]["queue"] = "other"
        job["spec"]["minAvailable"] = 9
        with pytest.raises(RefusedError) as refused:
            api.replace("Job", namespace, job)
        fields = {cause["field"] for cause in refused.value.body["details"]["causes"]}
        assert fields == {"spec.queue", "spec.minAvailable"}
        api.patch("Job", namespace, "train", {"metadata": {"labels": {"a": "b"}}})
        api.delete("Job", namespace, "train")

    def test_warnings_reach_the_user(self, with_webhook: Cluster, namespace: str) -> None:
        job = a_job(policies=[{"event": "PodPending", "action": "AbortJob"}])
        done = run_kubectl(with_webhook, "-n", namespace, "create", "-f", "-", stdin=json.dumps(job))
        assert "Warning: spec.policies[0]: never acts: PodPending needs a timeout" in done.stderr

    @pytest.mark.parametrize(
        "job",
        [
            pytest.param({**a_job(), "metadata": {"name": "a" * 300}}, id="long name"),
            pytest.param(
                {**a_job(), "metadata": {"name": "train", "labels": {"a": "\u202e" * 100}}}, id="invalid labels"
            ),
            pytest.param(
                {**a_job(), "metadata": {"name": "b", "annotations": {"a": "x" * 200_000}}}, id="large annotation"
            ),
            pytest.param(a_job(plugins={"svc": ["--" + "x" * 1_000_000]}), id="plugin argument of one megabyte"),
            pytest.param(a_job(plugins={f"p{i}": [] for i in range(5_000)}), id="many plugins"),
            pytest.param(
                a_job(tasks=[a_job()["spec"]["tasks"][0] | {"name": f"t{i}"} for i in range(500)]), id="many tasks"
            ),
            pytest.param(a_job(replicas=2_000_000_000), id="two billion pods"),
        ],
    )
    def test_a_hostile_job_affects_no_other_review(self, with_webhook: Cluster, namespace: str, job: Object) -> None:
        answer = dry_run(with_webhook, namespace, job)
        assert answer.status in (201, 400, 413, 422), answer
        assert len(json.dumps(answer.body)) < 3_000_000
        assert dry_run(with_webhook, namespace, a_job()).status == 201
        assert dry_run(with_webhook, namespace, invalid_job()).status == 422


def test_kubectl_shows_all_findings_as_a_list(with_webhook: Cluster, namespace: str) -> None:
    with pytest.raises(AssertionError) as refused:
        with_webhook.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(invalid_job()))
    text = str(refused.value)
    assert 'The Job "train" is invalid' in text
    assert text.count("\n* ") == len(INVALID_FIELDS)


def test_the_registration_exists_while_the_webhook_runs(webhooks: Webhooks, namespace: str) -> None:
    cluster = webhooks.cluster
    assert dry_run(cluster, namespace, a_job(plugins={"nosuch": []})).status == 201
    daemon = webhooks.start_outside(quickly=False)
    wait_until_called(cluster, namespace, invalid_job())
    hooks = [hook for each in configurations(cluster, OUTSIDE) for hook in each["webhooks"]]
    assert {hook["failurePolicy"] for hook in hooks} == {"Ignore"}
    assert {hook["clientConfig"]["url"].rpartition("/jobs")[0] for hook in hooks} == {
        f"https://127.0.0.1:{port_of(daemon)}"
    }
    daemon.stop()
    assert daemon.process is not None
    assert daemon.process.returncode == 0
    assert configurations(cluster, OUTSIDE) == []


class TestRegistration:
    def test_the_registration_of_a_killed_webhook_is_replaced(self, webhooks: Webhooks, namespace: str) -> None:
        cluster = webhooks.cluster
        first = webhooks.start_outside()
        wait_until_called(cluster, namespace, invalid_job())
        first.kill()
        stale = ca_bundles(cluster, OUTSIDE)
        assert len(stale) == 1
        # No webhook answers, and the cluster accepts jobs.
        assert dry_run(cluster, namespace, a_job(plugins={"nosuch": []})).status == 201
        second = webhooks.start_outside()
        wait_until_called(cluster, namespace, invalid_job())
        assert ca_bundles(cluster, OUTSIDE).isdisjoint(stale)
        second.stop()
        assert configurations(cluster, OUTSIDE) == []

    def test_a_replaced_webhook_keeps_its_successor(self, webhooks: Webhooks, namespace: str) -> None:
        first, second = webhooks.start_outside(), webhooks.start_outside()
        first.stop()
        assert len(configurations(webhooks.cluster, OUTSIDE)) == 2
        assert "now belongs to another webhook" in first.log.read_text()
        wait_until_called(webhooks.cluster, namespace, invalid_job())
        second.stop()
        assert configurations(webhooks.cluster, OUTSIDE) == []

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            pytest.param(["--listen=127.0.0.1:{taken}"], "address already in use", id="port in use"),
            pytest.param(["--listen=0.0.0.0:0"], "an address that the API server can reach", id="all addresses"),
            pytest.param(["--service=a"], "use one of them", id="register and service"),
        ],
    )
    def test_errors_at_start(self, webhooks: Webhooks, flags: list[str], message: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            words = [flag.format(taken=taken.getsockname()[1]) for flag in flags]
            daemon = webhooks.start(f"--kubeconfig={webhooks.cluster.kubeconfig()}", "--register", *words)
            assert daemon.process is not None
            assert daemon.process.wait(PATIENCE) == 2
        assert message in daemon.log.read_text()
        assert configurations(webhooks.cluster, OUTSIDE) == []

    def test_a_user_who_may_not_register(self, webhooks: Webhooks) -> None:
        daemon = webhooks.start(f"--kubeconfig={webhooks.cluster.kubeconfig('plain')}", "--register")
        assert daemon.process is not None
        assert daemon.process.wait(PATIENCE) == 2
        assert "could not register" in daemon.log.read_text()
        assert "forbidden" in daemon.log.read_text()


def failure_policies(cluster: Cluster) -> set[str]:
    return {hook["failurePolicy"] for each in configurations(cluster, names.CONFIGURATION) for hook in each["webhooks"]}


class TestInstalled:
    """Behind a Service, with only the permissions of the ServiceAccount."""

    def test_it_fails_closed_once_the_api_server_has_reached_it(
        self, webhooks: Webhooks, namespace: str, webhook_port: int
    ) -> None:
        cluster = webhooks.cluster
        # Its pods do not start: Jobs are accepted, and the controller checks them.
        assert failure_policies(cluster) == {"Ignore"}
        assert dry_run(cluster, namespace, a_job()).status == 201
        daemon = webhooks.start_installed(f"--listen=127.0.0.1:{webhook_port}")
        # Only a review through the Service counts: this one is sent by somebody else, to the address of the webhook.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        caller = Api(f"https://127.0.0.1:{webhook_port}", "", context)
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}
        caller.ask("POST", "/jobs/validate", review)
        caller.close()
        assert failure_policies(cluster) == {"Ignore"}
        wait_until_called(cluster, namespace, invalid_job())
        eventually("it is required", lambda: failure_policies(cluster) == {"Fail"})
        assert dry_run(cluster, namespace, a_job()).status == 201
        # It is not called for its own namespace.
        assert dry_run(cluster, names.NAMESPACE, a_job()).status == 201
        assert "could not" not in daemon.log.read_text()
        daemon.stop()
        assert daemon.process is not None
        assert daemon.process.returncode == 0
        assert dry_run(cluster, namespace, a_job()).status == 500
        # The manifests set Ignore again: no webhook is up that would be required.
        install_webhook(cluster, webhook_port)
        assert failure_policies(cluster) == {"Ignore"}
        eventually("Jobs are accepted", lambda: dry_run(cluster, namespace, a_job()).status == 201)

    def test_replicas_share_one_certificate(self, webhooks: Webhooks, webhook_port: int) -> None:
        ports = (webhook_port, free_port())
        daemons = [webhooks.start_installed(f"--listen=127.0.0.1:{each}", wait=False) for each in ports]
        for daemon in daemons:
            wait_until_serving(daemon)
        secret = webhooks.cluster.api().get("Secret", names.NAMESPACE, SECRET)
        assert set(secret["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
        assert ca_bundles(webhooks.cluster, names.CONFIGURATION) == {secret["data"]["ca.crt"]}
        served = {ssl.get_server_certificate(("127.0.0.1", each)) for each in ports}
        assert served == {base64.b64decode(secret["data"]["tls.crt"]).decode()}

    def test_applying_the_manifests_again_keeps_the_ca_bundle(
        self, webhooks: Webhooks, namespace: str, webhook_port: int
    ) -> None:
        webhooks.start_installed(f"--listen=127.0.0.1:{webhook_port}")
        wait_until_called(webhooks.cluster, namespace, invalid_job())
        before = ca_bundles(webhooks.cluster, names.CONFIGURATION)
        install_webhook(webhooks.cluster, webhook_port)
        assert ca_bundles(webhooks.cluster, names.CONFIGURATION) == before
        assert dry_run(webhooks.cluster, namespace, invalid_job()).status == 422

    @pytest.mark.usefixtures("webhook_port")
    def test_forbidden_requests(self, webhooks: Webhooks, namespace: str) -> None:
        api = webhooks.cluster.api(webhooks.cluster.service_account_token(names.NAMESPACE, names.WEBHOOK))
        for method, path in (
            ("GET", "/api/v1/secrets"),
            ("GET", f"/api/v1/namespaces/{names.NAMESPACE}/secrets"),
            ("DELETE", f"/api/v1/namespaces/{names.NAMESPACE}/secrets/{SECRET}"),
            ("GET", f"/api/v1/namespaces/{namespace}/pods"),
            ("GET", f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"),
            ("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
            ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pumice"),
            ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/commands.bus.volcano.sh"),
        ):
            assert api.ask(method, path).status == 403, (method, path)


def test_health_and_readiness(webhooks: Webhooks, api: Api) -> None:
    daemon = webhooks.start_outside()
    context = ssl.create_default_context(cadata=base64.b64decode(ca_bundles(webhooks.cluster, OUTSIDE).pop()).decode())
    caller = Api(f"https://127.0.0.1:{port_of(daemon)}", "", context)
    try:
        assert [caller.ask("GET", path).status for path in ("/healthz", "/readyz", "/nosuch")] == [200, 200, 404]
    finally:
        caller.close()


def test_fields_that_the_definition_of_volcano_drops_get_a_warning(webhooks: Webhooks, namespace: str) -> None:
    cluster = webhooks.cluster
    theirs = json.dumps(volcano_definition(names.JOBS_CRD))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=theirs)
    try:
        daemon = webhooks.start_outside()
        assert "definition of Job: drops spec.activeDeadlineSeconds, spec.suspend" in daemon.log.read_text()
        wait_until_called(cluster, namespace, invalid_job())
        # The server drops the field before it calls webhooks; the annotation of kubectl still has it.
        arguments = ("-n", namespace, "apply", "--validate=false", "-f", "-")
        done = run_kubectl(cluster, *arguments, stdin=json.dumps(a_job(suspend=True)))
    finally:
        install(cluster)
    assert "Warning: spec.suspend: the definition of Job in this cluster drops it" in done.stderr
    assert "activeDeadlineSeconds" not in done.stderr


def run_kubectl(cluster: Cluster, *arguments: str, stdin: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl and return standard output and standard error."""
    command = [str(cluster.programs.path("kubectl")), f"--kubeconfig={cluster.folder / 'admin.config'}", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=True)


def test_the_queue_of_a_job_must_exist_and_be_open(webhooks: Webhooks, namespace: str) -> None:
    """With Volcano's scheduler, as soon as one queue exists."""
    cluster, path = webhooks.cluster, "/apis/scheduling.volcano.sh/v1beta1/queues"
    api = cluster.api()
    for name, state in (("default", "Open"), ("closed", "Closed")):
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        api.call("POST", path, queue)
        status = {"status": {"state": state}}
        api.call("PATCH", f"{path}/{name}/status", status, "application/merge-patch+json")
    try:
        webhooks.start_outside("--gang=volcano")
        wait_until_called(cluster, namespace, invalid_job())
        eventually("the queues are known", lambda: dry_run(cluster, namespace, a_job(queue="nosuch")).status == 422)
        answer = dry_run(cluster, namespace, a_job(queue="closed"))
        assert answer.status == 422
        assert "spec.queue: closed: the queue is Closed" in answer.body["message"]
        assert dry_run(cluster, namespace, a_job()).status == 201
    finally:
        for name in ("default", "closed"):
            api.call("DELETE", f"{path}/{name}")
