"""`pumice install --check` against a real cluster: what is there, what lacks, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from tests.cluster.volcano import volcano_definition
from tests.cluster.webhooks import Webhooks, tried, until_asked

DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
BAD = a_job(plugins={"nosuch": []})


class Checked:
    def __init__(self, code: int, lines: list[dict[str, str]]) -> None:
        self.code = code
        self.by_subject = {line["check"]: line for line in lines}

    def state(self, subject: str) -> str:
        return self.by_subject[subject]["state"]

    def found(self, subject: str) -> str:
        return self.by_subject[subject]["found"]


def checked(capsys: pytest.CaptureFixture[str], config: Path, *flags: str) -> Checked:
    code = main(["install", "--check", "--json", f"--kubeconfig={config}", *flags])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(line) == {"check", "state", "found", "todo"} for line in lines)
    assert all(line["todo"] for line in lines if line["state"] != "ok")
    return Checked(code, lines)


@pytest.fixture
def webhooks(pumice_cluster: Cluster, tmp_path: Path) -> Iterator[Webhooks]:
    starter = Webhooks(pumice_cluster, tmp_path)
    yield starter
    starter.stop()


def test_what_lacks_is_told(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    seen = checked(capsys, pumice_cluster.kubeconfig())
    assert seen.code == 1
    assert seen.found("Kubernetes").startswith("v1.")
    assert seen.state("definition of Job") == "ok"
    assert seen.state("definition of Command") == "ok"
    assert "volcano" in seen.found("gang provider")
    assert seen.state("webhook") == "missing"
    assert seen.state("installed roles") == "ok"
    assert seen.state("your permissions") == "ok"


def test_all_good(
    pumice_cluster: Cluster, controllers: Controllers, webhooks: Webhooks, capsys: pytest.CaptureFixture[str]
) -> None:
    webhooks.outside()
    until_asked(pumice_cluster, "default", BAD)
    daemon = webhooks.cluster
    lease = _held_lease()
    api = daemon.api()
    api.create("Lease", names.NAMESPACE, lease)
    try:
        seen = checked(capsys, pumice_cluster.kubeconfig())
        assert {line["check"]: line["state"] for line in seen.by_subject.values() if line["state"] != "ok"} == {}
        assert seen.code == 0
        assert seen.found("controller").startswith("somebody leads")
        assert seen.found("webhook's answer").startswith("rejects an invalid Job")
    finally:
        api.delete("Lease", names.NAMESPACE, names.LEASE)


def test_a_controller_without_leader_election_is_not_called_missing(
    pumice_cluster: Cluster, controllers: Controllers, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    controllers.start(namespace, "--no-leader-elect")
    seen = checked(capsys, pumice_cluster.kubeconfig(), "--no-webhook")
    assert seen.state("controller") == "unknown"
    assert "--no-leader-elect" in seen.found("controller")


def _held_lease() -> Object:
    import datetime as dt

    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: TID251 - a Lease is held at the real time
    return {
        "metadata": {"name": names.LEASE},
        "spec": {"holderIdentity": "somebody", "renewTime": now, "leaseDurationSeconds": 15},
    }


def test_a_webhook_that_does_not_answer(
    pumice_cluster: Cluster, webhooks: Webhooks, capsys: pytest.CaptureFixture[str]
) -> None:
    webhooks.outside().kill()
    eventually("it is not asked", lambda: tried(pumice_cluster, "default", BAD).status == 201)
    seen = checked(capsys, pumice_cluster.kubeconfig())
    assert seen.state("webhook") == "ok"
    assert (seen.state("webhook's answer"), seen.found("webhook's answer")) == ("missing", "an invalid Job is accepted")


def test_fields_that_volcanos_definition_drops(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = json.dumps(volcano_definition("jobs.batch.volcano.sh"))
    pumice_cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=theirs)
    try:
        seen = checked(capsys, pumice_cluster.kubeconfig())
    finally:
        install(pumice_cluster)
    assert seen.state("definition of Job") == "missing"
    assert seen.found("definition of Job") == f"drops {', '.join(PUMICE_FIELDS)}"
    assert "--crds-only" in seen.by_subject["definition of Job"]["todo"]


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        pytest.param(["--leader-elect=false"], "missing", id="two writers"),
        pytest.param(["--controllers=*,-job-controller"], "ok", id="without its job controller"),
    ],
)
def test_volcanos_controller_beside_ours(
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
        seen = checked(capsys, pumice_cluster.kubeconfig())
    finally:
        pumice_cluster.api().call("DELETE", DEPLOYMENTS.format(namespace) + "/volcano-controllers")
    assert seen.state("Volcano's controller") == state
    if state == "missing":
        assert f"{namespace}/volcano-controllers" in seen.found("Volcano's controller")


def test_somebody_who_may_see_nothing(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    seen = checked(capsys, pumice_cluster.kubeconfig("plain"))
    assert seen.code == 1
    assert seen.state("definition of Job") == "unknown"
    assert seen.state("your permissions") == "missing"
    assert "may not list jobs.batch.volcano.sh" in seen.found("your permissions")


def test_the_installed_account_has_what_the_table_says(
    pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the controller's permissions, as the API server sees them, and not one less."""
    token = pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER)
    config = pumice_cluster.kubeconfig(names.CONTROLLER, token=token)
    assert checked(capsys, config, "--no-webhook").state("your permissions") == "ok"


def test_a_role_that_grants_too_little(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    role = next(each for each in installed() if each["kind"] == "ClusterRole")
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods"]]
    pumice_cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(role))
    try:
        seen = checked(capsys, pumice_cluster.kubeconfig())
    finally:
        install(pumice_cluster)
    assert seen.state("installed roles") == "missing"
    assert "pumice-controller: create pods" in seen.found("installed roles")


def test_a_cluster_that_is_not_there(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    config = pumice_cluster.kubeconfig(server=f"https://127.0.0.1:{free_port()}")
    assert main(["install", "--check", f"--kubeconfig={config}"]) == 2
    assert "pumice install: " in capsys.readouterr().err


def test_for_people(pumice_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--check", f"--kubeconfig={pumice_cluster.kubeconfig()}"]) == 1
    out, err = capsys.readouterr()
    assert "ok       definition of Job      keeps every field\n" in out
    assert "missing  webhook                not registered; only the controller checks Jobs\n" in out
    assert "         hint: pumice install | kubectl apply" in out
    assert err == f"{pumice_cluster.server} (admin)\n"
