"""`pumice install --check` on a real cluster: what exists, what is missing, and hints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pumice.cli.main import main
from pumice.engines.kubernetes.install import names
from pumice.model.job import PUMICE_FIELDS
from tests.cluster.api import Object, eventually
from tests.cluster.cluster import Cluster, free_port
from tests.cluster.controllers import Controllers, install, installed
from tests.cluster.jobs import a_job
from tests.cluster.volcano_definitions import volcano_definition
from tests.cluster.webhooks import Webhooks, dry_run, wait_until_called

DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
INVALID = a_job(plugins={"nosuch": []})


class Results:
    def __init__(self, code: int, lines: list[dict[str, str]]) -> None:
        self.code = code
        self.by_subject = {line["check"]: line for line in lines}

    def state(self, subject: str) -> str:
        return self.by_subject[subject]["state"]

    def found(self, subject: str) -> str:
        return self.by_subject[subject]["found"]


def check(capsys: pytest.CaptureFixture[str], config: Path, *flags: str) -> Results:
    code = main(["install", "--check", "--json", f"--kubeconfig={config}", *flags])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(line) == {"check", "state", "found", "todo"} for line in lines)
    assert all(line["todo"] for line in lines if line["state"] != "ok")
    return Results(code, lines)


def test_a_missing_webhook_is_reported(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    results = check(capsys, pumice_cluster.kubeconfig())
    assert results.code == 1
    assert results.found("Kubernetes").startswith("v1.")
    assert results.state("definition of Job") == "ok"
    assert results.state("definition of Command") == "ok"
    assert "volcano" in results.found("gang provider")
    assert results.state("webhook") == "missing"
    assert results.state("installed roles") == "ok"
    assert results.state("your permissions") == "ok"


def test_everything_is_ok(
    pumice_cluster: Cluster, controllers: Controllers, webhooks: Webhooks, capsys: pytest.CaptureFixture[str]
) -> None:
    webhooks.start_outside()
    wait_until_called(pumice_cluster, "default", INVALID)
    api = pumice_cluster.api()
    if api.find("Lease", names.LEASE_NAMESPACE, names.LEASE) is not None:
        api.delete("Lease", names.LEASE_NAMESPACE, names.LEASE)
    api.create("Lease", names.LEASE_NAMESPACE, _held_lease())
    try:
        results = check(capsys, pumice_cluster.kubeconfig())
        assert {line["check"]: line["state"] for line in results.by_subject.values() if line["state"] != "ok"} == {}
        assert results.code == 0
        assert results.found("controller").startswith("some-controller leads")
        assert results.found("webhook's answer").startswith("rejects an invalid Job")
    finally:
        api.delete("Lease", names.LEASE_NAMESPACE, names.LEASE)


def test_a_controller_without_leader_election_is_not_called_missing(
    pumice_cluster: Cluster, controllers: Controllers, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    controllers.start(namespace, "--no-leader-elect")
    results = check(capsys, pumice_cluster.kubeconfig(), "--no-webhook", f"--namespace={namespace}")
    assert results.state("controller") == "unknown"
    assert "--no-leader-elect" in results.found("controller")


def _held_lease() -> Object:
    import datetime as dt

    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: TID251 - a Lease is renewed in real time
    return {
        "metadata": {"name": names.LEASE},
        "spec": {"holderIdentity": "some-controller", "renewTime": now, "leaseDurationSeconds": 15},
    }


def test_a_webhook_that_is_down(
    pumice_cluster: Cluster, webhooks: Webhooks, capsys: pytest.CaptureFixture[str]
) -> None:
    webhooks.start_outside().kill()
    eventually("the webhook is not called", lambda: dry_run(pumice_cluster, "default", INVALID).status == 201)
    results = check(capsys, pumice_cluster.kubeconfig())
    assert results.state("webhook") == "ok"
    assert (results.state("webhook's answer"), results.found("webhook's answer")) == (
        "missing",
        "an invalid Job is accepted",
    )


def test_fields_that_volcano_drops(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = json.dumps(volcano_definition("jobs.batch.volcano.sh"))
    pumice_cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=theirs)
    try:
        results = check(capsys, pumice_cluster.kubeconfig())
    finally:
        install(pumice_cluster)
    assert results.state("definition of Job") == "missing"
    assert results.found("definition of Job") == f"drops {', '.join(PUMICE_FIELDS)}"
    assert "--crds-only" in results.by_subject["definition of Job"]["todo"]


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        pytest.param(["--leader-elect=false"], "missing", id="with its job controller"),
        pytest.param(["--controllers=*,-job-controller"], "ok", id="without its job controller"),
    ],
)
def test_the_controller_of_volcano(
    pumice_cluster: Cluster,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    state: str,
) -> None:
    labels = {"app": "volcano-controller"}
    container = {"name": "a", "image": "a", "args": arguments}
    deployment: dict[str, Any] = {
        "metadata": {"name": "volcano-controllers", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    pumice_cluster.api().call("POST", DEPLOYMENTS.format(namespace), deployment)
    try:
        results = check(capsys, pumice_cluster.kubeconfig())
    finally:
        pumice_cluster.api().call("DELETE", DEPLOYMENTS.format(namespace) + "/volcano-controllers")
    assert results.state("Volcano's controller") == state
    if state == "missing":
        assert f"{namespace}/volcano-controllers" in results.found("Volcano's controller")


def test_a_user_without_permissions(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    results = check(capsys, pumice_cluster.kubeconfig("plain"))
    assert results.code == 1
    assert results.state("definition of Job") == "unknown"
    assert results.state("your permissions") == "missing"
    assert "may not list jobs.batch.volcano.sh" in results.found("your permissions")


def test_the_installed_account_has_every_permission(
    pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    token = pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER)
    config = pumice_cluster.kubeconfig(names.CONTROLLER, token=token)
    assert check(capsys, config, "--no-webhook").state("your permissions") == "ok"


def test_a_role_without_a_permission(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    role = next(each for each in installed() if each["kind"] == "ClusterRole")
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods"]]
    pumice_cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(role))
    try:
        results = check(capsys, pumice_cluster.kubeconfig())
    finally:
        install(pumice_cluster)
    assert results.state("installed roles") == "missing"
    assert results.found("installed roles") == (
        "do not grant pumice-controller: get pods, list pods, watch pods, create pods, delete pods"
    )


def test_an_unreachable_cluster(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    config = pumice_cluster.kubeconfig(server=f"https://127.0.0.1:{free_port()}")
    assert main(["install", "--check", f"--kubeconfig={config}"]) == 2
    assert "pumice install: " in capsys.readouterr().err


def test_text_output(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--check", f"--kubeconfig={pumice_cluster.kubeconfig()}"]) == 1
    out, err = capsys.readouterr()
    assert "ok       definition of Job      keeps every field\n" in out
    assert "missing  webhook                not registered; only the controller checks Jobs\n" in out
    assert "         hint: pumice install --image NAME | kubectl apply" in out
    assert err == f"{pumice_cluster.server} (admin)\n"
