"""The documented jobs on a real API server: the objects that `pumice render` prints, and runs with real processes."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from pumice.cli.run.options import add_arguments, read_options
from pumice.engines.local.preparation.default_settings import active_python
from pumice.store.settings import ExtraMount, Settings
from scripts.frameworks import TORCH, environment, find
from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import Controllers, apply, phase
from tests.cluster.render_comparison import check_created
from tests.cluster.sandbox_kubelet import SandboxKubelet
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
EXAMPLES = ROOT / "examples"
TENSORFLOW = "volcanosh/dist-mnist-tf-example:0.0.1"
# Replaces `python /var/tf_dist_mnist/dist_mnist.py`: servers wait for workers, workers connect to every server. The
# documented TF_CONFIG calls both of them servers, so the host name decides.
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
def test_the_controller_creates_what_render_prints(controllers: Controllers, namespace: str, example: str) -> None:
    check_created(controllers, namespace, EXAMPLES / f"{example}.yaml", "volcano")


def _settings(example: str, state: Path, environ: dict[str, str]) -> Settings:
    """Return the settings of `pumice run` for an example, with a directory of the test."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    settings = read_options(parser.parse_args([str(EXAMPLES / example)])).settings
    python = active_python(environ)
    work = state / "work"
    work.mkdir(parents=True)
    mounts = (ExtraMount(EXAMPLES, read_only=True),)
    return replace(settings, state=state, workdir=work, mounts=mounts, python=python.directories, path=python.bin)


def _check_completed(job: Object, pod: str, policy: str, *, workers: str) -> None:
    """Check the whole status of a job that ended when `pod` succeeded; some workers may have ended before."""
    status: Object = job["status"]
    state, task = status["state"], pod.rpartition("-")[0]
    assert state["phase"] == "Completed"
    assert state["reason"] == "TaskCompleted"
    assert state["message"] == f"TaskCompleted of {pod}; policy {policy} TaskCompleted: CompleteJob"
    # A job whose pods never run all at once skips the phase Running.
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
        (pytest.fail if IN_CI else pytest.skip)("torch is not installed; run make run")
    return environment(found, {**os.environ})


@dataclass(slots=True)
class ExampleRunner:
    """Runs an example with a controller and a kubelet with real processes."""

    controllers: Controllers
    namespace: str
    state: Path

    def run(self, example: str, settings: Settings, max_grace: float = 60) -> SandboxKubelet:
        """Apply an example, wait until it is completed, and return the kubelet with the output of the pods."""
        cluster = self.controllers.cluster
        with SandboxKubelet(cluster, self.namespace, settings, max_grace=max_grace) as kubelet:
            controller = self.controllers.start(self.namespace)
            job = apply(cluster, self.namespace, EXAMPLES / f"{example}.yaml")["metadata"]["name"]

            def is_completed() -> bool:
                if not controller.alive:
                    pytest.fail("the controller exited")
                assert phase(cluster, self.namespace, job) == "Completed", [line.text for line in kubelet.log_lines]
                return True

            eventually("the job is completed", is_completed)
        return kubelet


@pytest.fixture
def runner(controllers: Controllers, namespace: str, tmp_path: Path) -> ExampleRunner:
    return ExampleRunner(controllers, namespace, tmp_path / "kubelet")


@pytest.mark.soak
def test_the_pytorch_job_runs_with_real_torch(runner: ExampleRunner, api: Api, with_torch: dict[str, str]) -> None:
    kubelet = runner.run("pytorch-job", _settings("pytorch-job.yaml", runner.state, with_torch))
    assert "ring closed: 42.0" in kubelet.lines("master-0")
    assert "rank 2 of 3: received 42.0 from rank 1" in kubelet.lines("worker-1")
    job = api.get("Job", runner.namespace, "pytorch-job")
    _check_completed(job, "master-0", "spec.tasks[0].policies[0]", workers="worker")


def test_the_tensorflow_job_finds_its_servers(runner: ExampleRunner, api: Api, tmp_path: Path) -> None:
    settings = _settings("tensorflow-dist-mnist.yaml", runner.state, {**os.environ})
    replacement = tmp_path / "python"
    # Shell and Python at once, because a `#!` line cannot have an interpreter path with a space.
    python = shlex.quote(f"{settings.path}/python3")
    replacement.write_text(f"#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n{DIST_MNIST}")
    # Without an own PATH, so that the replacement is found.
    settings = replace(settings, path="", files={}, programs={TENSORFLOW: (replacement,)})
    kubelet = runner.run("tensorflow-dist-mnist", settings, 2)
    assert kubelet.lines("worker-0") == kubelet.lines("worker-1") == ["served by 0"]
    job = api.get("Job", runner.namespace, "tensorflow-dist-mnist")
    last = job["status"]["state"]["message"].split()[2].rstrip(";")
    assert last in {"worker-0", "worker-1"}
    _check_completed(job, last, "spec.tasks[1].policies[0]", workers="ps")


@pytest.mark.needs("mpiexec", "sshd")
def test_the_mpi_job_runs_over_real_ssh(runner: ExampleRunner, api: Api) -> None:
    # The first process of the workers is a shell, which ignores SIGTERM: shorten the grace period.
    settings = _settings("lm-mpi-job.yaml", runner.state, {**os.environ})
    runner.run("lm-mpi-job", replace(settings, keep=True), 2)
    # A master that started before the workers listened was restarted and left an empty file.
    result = max(runner.state.rglob("home/re"))
    assert sorted(result.read_text(encoding="utf-8").splitlines()) == [
        f"Hello world from processor lm-mpi-job-mpiworker-{rank}, rank {rank} out of 2 processors" for rank in (0, 1)
    ]
    job = api.get("Job", runner.namespace, "lm-mpi-job")
    _check_completed(job, "mpimaster-0", "spec.tasks[0].policies[0]", workers="mpiworker")
