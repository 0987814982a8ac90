"""The documented jobs on a real API server: the objects that `pumice render` prints, and real processes to the end."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pumice.cli.run.options import add_arguments, read_options
from pumice.engines.local.container_spec.active_python import active_python
from pumice.engines.local.state.settings import ExtraMount, Settings
from scripts.frameworks import TORCH, environment, find
from tests.cluster.api import Api, Object, eventually
from tests.cluster.comparing import check_created
from tests.cluster.controllers import Controllers, apply, phase
from tests.cluster.running_kubelet import RunningKubelet
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
WITHIN = 150
EXAMPLES = ROOT / "examples"
TENSORFLOW = "volcanosh/dist-mnist-tf-example:0.0.1"
# Stands in for `python /var/tf_dist_mnist/dist_mnist.py`: servers wait for workers, workers look for every server. The
# documented TF_CONFIG calls both of them servers, so it is the name of the host that tells.
DIST_MNIST = """
import os, pathlib, socket, time
hosts = pathlib.Path("/etc/volcano/ps.host").read_text().split()
if "-ps-" in socket.gethostname():
    server = socket.create_server(("", 2222))
    while True:
        server.accept()[0].sendall(os.environ["VK_TASK_INDEX"].encode())
for host in hosts:
    for attempt in range(600):
        try:
            with socket.create_connection((host, 2222), 5) as server:
                print("served by", server.recv(1).decode(), flush=True)
                break
        except OSError:
            time.sleep(0.1)
"""


@pytest.mark.parametrize("example", ["pytorch-job", "tensorflow-dist-mnist", "lm-mpi-job"])
def test_a_documented_job_becomes_what_render_prints(controllers: Controllers, namespace: str, example: str) -> None:
    check_created(controllers, namespace, EXAMPLES / f"{example}.yaml", "volcano")


def _settings(example: str, state: Path, environ: dict[str, str]) -> Settings:
    """What `pumice run` would take for this example, in a place of the test's own."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    settings = read_options(parser.parse_args([str(EXAMPLES / example)])).settings
    python = active_python(environ)
    work = state / "work"
    work.mkdir(parents=True)
    mounts = (ExtraMount(EXAMPLES, read_only=True),)
    return replace(settings, state=state, workdir=work, mounts=mounts, python=python.directories, path=python.bin)


def _check_completed(job: Object, pod: str, policy: str, *, workers: str) -> None:
    """The whole status of a job that ended when `pod` succeeded; of its workers some may have been quicker."""
    status: Object = job["status"]
    state, task = status["state"], pod.rpartition("-")[0]
    assert state["phase"] == "Completed"
    assert state["reason"] == "TaskCompleted"
    assert state["message"] == f"TaskCompleted of {pod}; policy {policy} TaskCompleted: CompleteJob"
    # A job whose pods are never seen running all at once goes straight on.
    passed = [each["status"] for each in status["conditions"] if each["status"] != "Running"]
    assert passed == ["Pending", "Completing", "Completed"]
    assert status["conditions"][-1]["lastTransitionTime"] == state["lastTransitionTime"]
    counts = {name: each["phase"] for name, each in status["taskStatusCount"].items()}
    assert counts[task] == {"Succeeded": sum(each["replicas"] for each in job["spec"]["tasks"] if each["name"] == task)}
    assert set(counts) <= {task, workers}
    assert status["succeeded"] == sum(phases.get("Succeeded", 0) for phases in counts.values())
    assert {"running", "pending", "failed", "terminating", "unknown", "retryCount"}.isdisjoint(status)
    assert (status["version"], status["minAvailable"]) == (1, job["spec"]["minAvailable"])


@pytest.fixture
def with_torch() -> dict[str, str]:
    found = find(TORCH, os.environ, ROOT)
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)("no torch: make run fetches it")
    return environment(found, {**os.environ})


@dataclass(slots=True)
class Stage:
    """A controller and a kubelet that runs what the controller makes."""

    controllers: Controllers
    namespace: str
    state: Path

    def play(self, example: str, settings: Settings, longest_grace: float = 60) -> RunningKubelet:
        """Apply the job and see it through to its end; the kubelet, for what the pods said."""
        cluster = self.controllers.cluster
        with RunningKubelet(cluster, self.namespace, settings, longest_grace=longest_grace) as kubelet:
            controller = self.controllers.start(self.namespace)
            job = apply(cluster, self.namespace, EXAMPLES / f"{example}.yaml")["metadata"]["name"]

            def is_completed() -> bool:
                if not controller.alive:
                    pytest.fail("the controller ended")
                assert phase(cluster, self.namespace, job) == "Completed", [line.text for line in kubelet.said]
                return True

            eventually("it is completed", is_completed, within=WITHIN)
        return kubelet


@pytest.fixture
def stage(controllers: Controllers, namespace: str, tmp_path: Path) -> Stage:
    return Stage(controllers, namespace, tmp_path / "kubelet")


def test_the_pytorch_job_runs_with_real_torch(stage: Stage, api: Api, with_torch: dict[str, str]) -> None:
    kubelet = stage.play("pytorch-job", _settings("pytorch-job.yaml", stage.state, with_torch))
    assert "ring closed: 42.0" in kubelet.lines("master-0")
    assert "rank 2 of 3: received 42.0 from rank 1" in kubelet.lines("worker-1")
    job = api.get("Job", stage.namespace, "pytorch-job")
    _check_completed(job, "master-0", "spec.tasks[0].policies[0]", workers="worker")


def test_the_tensorflow_job_finds_its_servers(stage: Stage, api: Api, tmp_path: Path) -> None:
    settings = _settings("tensorflow-dist-mnist.yaml", stage.state, {**os.environ})
    stand_in = tmp_path / "python"
    # Shell and Python at once: the path of an interpreter with a space in it cannot stand in a `#!` line.
    python = shlex.quote(f"{settings.path}/python3")
    stand_in.write_text(f"#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n{DIST_MNIST}")
    # Without a path of its own it is the stand-in that is found.
    settings = replace(settings, path="", files={}, programs={TENSORFLOW: (stand_in,)})
    kubelet = stage.play("tensorflow-dist-mnist", settings, 2)
    assert kubelet.lines("worker-0") == kubelet.lines("worker-1") == ["served by 0"]
    job = api.get("Job", stage.namespace, "tensorflow-dist-mnist")
    last = job["status"]["state"]["message"].split()[2].rstrip(";")
    assert last in {"worker-0", "worker-1"}
    _check_completed(job, last, "spec.tasks[1].policies[0]", workers="ps")


@pytest.mark.needs("mpiexec", "sshd")
def test_the_mpi_job_runs_over_real_ssh(stage: Stage, api: Api) -> None:
    # The workers' first process is a shell, which ignores SIGTERM: they are not waited for as long as a cluster would.
    settings = _settings("lm-mpi-job.yaml", stage.state, {**os.environ})
    stage.play("lm-mpi-job", replace(settings, keep=True), 2)
    # Who asked before the workers listened was started again, and has left an empty file.
    result = max(stage.state.rglob("home/re"))
    assert sorted(result.read_text(encoding="utf-8").splitlines()) == [
        f"Hello world from processor lm-mpi-job-mpiworker-{rank}, rank {rank} out of 2 processors" for rank in (0, 1)
    ]
    job = api.get("Job", stage.namespace, "lm-mpi-job")
    _check_completed(job, "mpimaster-0", "spec.tasks[0].policies[0]", workers="mpiworker")
