"""TorchX, kubectl and the official Python client, unmodified: they work on Jobs of `pumice`, and it on theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts import frameworks
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import MAIN, Controllers, phase
from tests.cluster.fake_kubelet import RUN_UNTIL_STOPPED, FakeKubelet, PodScript
from tests.cluster.jobs import until_phase
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.pod_status import timestamp
from tests.cluster.typed_commands import JOB
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

Run = Callable[..., subprocess.CompletedProcess[str]]


class Shared(NamedTuple):
    """A cluster on which Jobs run. `run` types a command there, in a directory with `job.yaml`."""

    cluster: Cluster
    api: Api
    namespace: str
    kubelet: FakeKubelet
    logs: LogServer
    run: Run
    folder: Path

    def pumice(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, "-c", MAIN, *words, "--on", "admin"], PYTHONPATH=str(ROOT / "src"))

    def kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run([str(self.cluster.programs.path("kubectl")), *words])


@pytest.fixture
def shared(controllers: Controllers, api: Api, namespace: str, tmp_path: Path) -> Iterator[Shared]:
    (tmp_path / "job.yaml").write_text(JOB)
    with LogServer(controllers.cluster) as logs, FakeKubelet(controllers.cluster, namespace) as kubelet:
        direct = controllers.cluster.kubeconfig(namespace=namespace)
        reader = controllers.cluster.kubeconfig(server=logs.server, namespace=namespace)

        def run(argv: Sequence[str], **environ: str) -> subprocess.CompletedProcess[str]:
            own = {
                "PATH": os.defpath,
                "HOME": str(tmp_path),
                "KUBECONFIG": str(reader if "log" in " ".join(argv[3:4]) else direct),
            }
            return subprocess.run(
                argv,
                cwd=tmp_path,
                env={**own, **environ},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )

        controllers.start(namespace)
        yield Shared(controllers.cluster, api, namespace, kubelet, logs, run, tmp_path)


@pytest.fixture(scope="module")
def python() -> str:
    """A Python with TorchX and the official client. TORCHX_PYTHON names another one, such as that of the nightly."""
    found = frameworks.find(frameworks.TORCHX, os.environ, ROOT)
    if found is None:
        pytest.skip("torchx is not here; `python -m scripts.with_framework torchx true` fetches it")
    return found.python


def test_torchx(shared: Shared, python: str) -> None:
    where = ("-s", "kubernetes", "-cfg", f"queue=default,namespace={shared.namespace}")

    def torchx(*words: str) -> str:
        done = shared.run([python, "-m", "torchx.cli.main", *words])
        assert done.returncode == 0, done.stderr
        return done.stdout

    handle = torchx("run", "--workspace=", *where, "utils.echo", "--image", "busybox", "--msg", "hello").split()[-1]
    name = handle.rpartition(":")[2]
    until_phase(shared.api, shared.namespace, "Running", name)
    [pod] = [each["metadata"]["name"] for each in shared.api.list("Pod", shared.namespace)]
    shared.logs.outputs[pod, False] = ContainerOutput([(timestamp(), "hello")])
    assert "RUNNING" in torchx("status", handle)
    assert "hello" in torchx("log", handle)
    assert name in torchx("list", "-s", "kubernetes")
    rows = json.loads(shared.pumice("ps", "-o", "json").stdout)["items"]
    assert [(row["run"], row["outcome"]) for row in rows] == [(name, "Running")]
    assert shared.pumice("logs", name).stdout.endswith("hello\n")
    torchx("cancel", handle)
    # This version deletes the Job; the nightly aborts it.
    eventually("it is cancelled", lambda: phase(shared.cluster, shared.namespace, name) in ("", "Aborted"))
    # A Job of ours. TorchX takes the number of a replica from the name of its task, and fails where there is none.
    Path(shared.folder, "job.yaml").write_text(JOB.replace("name: worker", "name: worker-0"))
    assert shared.pumice("submit", "job.yaml").stdout == "train\n"
    until_phase(shared.api, shared.namespace, "Running")
    ours = f"kubernetes://torchx/{shared.namespace}:train"
    assert "RUNNING" in torchx("status", ours)
    assert "train" in torchx("list", "-s", "kubernetes")
    torchx("cancel", ours)
    eventually("it is cancelled", lambda: phase(shared.cluster, shared.namespace, "train") in ("", "Aborted"))


def test_kubectl(shared: Shared) -> None:
    assert shared.kubectl("apply", "-f", "job.yaml").returncode == 0
    until_phase(shared.api, shared.namespace, "Running")
    assert shared.kubectl("diff", "-f", "job.yaml").returncode == 0
    assert shared.pumice("scale", "train", "worker=1").returncode == 0
    changed = shared.kubectl("diff", "-f", "job.yaml")
    assert (changed.returncode, "replicas: 2" in changed.stdout) == (1, True)
    assert shared.kubectl("apply", "-f", "job.yaml").returncode == 0
    eventually("it is larger", lambda: len(shared.api.list("Pod", shared.namespace)) == 2)
    assert "Running" in shared.kubectl("get", "vcjob", "train").stdout
    assert shared.pumice("stop", "train").returncode == 0
    # A Job of ours.
    shared.kubelet.behaviour = lambda _pod: PodScript(seconds=0.1)
    assert shared.pumice("submit", "job.yaml", "--name", "ours").stdout == "ours\n"
    waited = shared.kubectl("wait", "vcjob/ours", "--for=jsonpath={.status.state.phase}=Completed", "--timeout=150s")
    assert waited.returncode == 0, waited.stderr
    assert shared.kubectl("delete", "vcjob", "ours", "train").returncode == 0
    assert json.loads(shared.pumice("ps", "-a", "-o", "json").stdout)["items"] == []


OFFICIAL = """\
import sys, yaml
from kubernetes import client, config, watch

config.load_kube_config()
jobs, namespace = client.CustomObjectsApi(), sys.argv[1]
where = ("batch.volcano.sh", "v1alpha1", namespace, "jobs")
body = yaml.safe_load(open("job.yaml"))
body["metadata"]["name"] = "theirs"
jobs.create_namespaced_custom_object(*where, body)
names = {each["metadata"]["name"] for each in jobs.list_namespaced_custom_object(*where)["items"]}
assert names == {"train", "theirs"}, names
left = set(names)
for event in watch.Watch().stream(jobs.list_namespaced_custom_object, *where):
    if event["object"].get("status", {}).get("state", {}).get("phase") == "Running":
        left.discard(event["object"]["metadata"]["name"])
    if not left:
        break
jobs.patch_namespaced_custom_object(*where, "train", {"metadata": {"labels": {"seen": "yes"}}})
jobs.delete_namespaced_custom_object(*where, "train")
"""


def test_the_official_client(shared: Shared, python: str) -> None:
    shared.kubelet.behaviour = lambda _pod: RUN_UNTIL_STOPPED
    assert shared.pumice("submit", "job.yaml").stdout == "train\n"
    done = shared.run([python, "-c", OFFICIAL, shared.namespace])
    assert done.returncode == 0, done.stderr
    assert shared.pumice("suspend", "theirs").returncode == 0
    until_phase(shared.api, shared.namespace, "Aborted", "theirs")
    rows = json.loads(shared.pumice("ps", "-o", "json", "-a").stdout)["items"]
    assert [(row["run"], row["outcome"]) for row in rows] == [("theirs", "Suspended")]
