"""A Job is seen alike, whoever created it: kubectl, TorchX, vcctl, or `pumice submit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cluster.controllers import Controllers, apply
from tests.cluster.fake_kubelet import FakeKubelet, PodScript
from tests.cluster.jobs import a_job
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.pod_status import timestamp
from tests.cluster.typed_commands import typing

CLIENTS = Path(__file__).with_name("clients")
# The pods of each Job, as they are named in commands.
PODS = {
    "torchx-0.7.0": ["worker-0-0", "worker-1-0"],
    "torchx-nightly": ["worker-0-0", "worker-1-0"],
    "vcctl": ["default0-0", "default0-1"],
    "kubectl": ["worker-0", "worker-1"],
    "pumice": ["worker-0", "worker-1"],
}


@pytest.mark.parametrize("client", PODS)
def test_a_job_is_seen_alike(
    controllers: Controllers,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    client: str,
) -> None:
    cluster, pods = controllers.cluster, PODS[client]
    file = CLIENTS / f"{client}.yaml"
    if not file.exists():
        file = tmp_path / "job.yaml"
        file.write_text(yaml.safe_dump(a_job(name="mine")))
    name = yaml.safe_load(file.read_text())["metadata"]["name"]

    with LogServer(cluster) as logs:
        for pod in pods:
            logs.outputs[f"{name}-{pod}", False] = ContainerOutput([(timestamp(), "hello")])
        pumice = typing(cluster, namespace, tmp_path, monkeypatch, capsys, server=logs.server)
        controllers.start(namespace)
        with FakeKubelet(cluster, namespace, lambda _pod: PodScript(seconds=0.2)):
            if client == "pumice":
                assert pumice("submit", str(file)).code == 0
            else:
                apply(cluster, namespace, file)
            assert pumice("wait", name)[:2] == (0, f"{name} Succeeded\n")
        [row] = json.loads(pumice("ps", "-a", "-o", "json").out)["items"]
        assert (row["run"], row["outcome"], row["attempt"], row["exitCode"]) == (name, "Succeeded", 1, 0)
        assert row["pods"] == {"running": 0, "total": 2, "succeeded": 2, "failed": 0, "pending": 0}
        assert pumice("why", name).out.startswith(f"{name} Succeeded: 2 pods succeeded, in ")
        assert sorted(pumice("logs", name).out.splitlines()) == [f"{pod}  hello" for pod in pods]
        events = pumice("history", name, "--events").out
        assert [pod for pod in pods if pod in events] == pods
        assert pumice("get", name, "--exit-code", "-o", "yaml").code == 0
        shown = pumice("attach", name)
        assert (shown.code, shown.err.splitlines()[0].partition("   ")[0].partition(":")[0]) == (0, f"{name}  2 pods")
