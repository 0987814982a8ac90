"""`pumice.connect`: programs and tests start Jobs on a cluster, change them, and get errors in the words of Python."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import pumice
from pumice.store.events import RunEvent
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, phase
from tests.cluster.fake_kubelet import RUN_UNTIL_STOPPED, FakeKubelet, PodScript
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.pod_status import timestamp
from tests.cluster.typed_commands import JOB
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

ENDS = PodScript(seconds=0.1)


@pytest.fixture
def kubelet(
    controllers: Controllers, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeKubelet]:
    """A cluster on which Jobs run; the directory has a Job file, and the kubeconfig the namespace."""
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "train.py").write_text("print('hello')\n")
    monkeypatch.chdir(tmp_path)
    for name, value in (("HOME", str(tmp_path)), ("XDG_STATE_HOME", str(tmp_path / "state")), ("PUMICE_ON", "nowhere")):
        monkeypatch.setenv(name, value)
    with LogServer(controllers.cluster) as logs, FakeKubelet(controllers.cluster, namespace) as kubelet:
        for index in (0, 1):
            logs.outputs[f"train-worker-{index}", False] = ContainerOutput([(timestamp(), f"epoch {index}")])
        config = controllers.cluster.kubeconfig(server=logs.server, namespace=namespace)
        monkeypatch.setenv("KUBECONFIG", str(config))
        controllers.start(namespace)
        yield kubelet


def test_run_prints_and_returns_how_it_ended(kubelet: FakeKubelet, capsys: pytest.CaptureFixture[str]) -> None:
    kubelet.behaviour = lambda _pod: ENDS
    with pumice.connect("admin") as client:
        result = client.run(pumice.load("job.yaml"), note="first")
        assert (result.ok, result.outcome) == (True, "Succeeded")
        printed = capsys.readouterr()
        assert sorted(printed.out.splitlines()) == ["worker-0  epoch 0", "worker-1  epoch 1"]
        assert "run train   on admin/" in printed.err
        kubelet.behaviour = lambda _pod: PodScript(seconds=0.1, code=3)
        with pytest.raises(pumice.RunFailed) as failed:
            client.run(pumice.load("job.yaml"), name="other")
        assert failed.value.result.exit_code == 3


def test_options_and_changes_of_a_submitted_job(
    kubelet: FakeKubelet, api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del kubelet
    monkeypatch.setenv("TOKEN", "s3cret")
    with pumice.connect("admin", namespace=namespace) as client:
        run = client.submit(
            pumice.load("job.yaml"),
            args=["--lr", 0.1],
            code=True,
            env=["EPOCHS=1", "TOKEN"],
            scale={"worker": 1},
            image={"busybox": "busybox:1.36"},
            queue="default",
            timeout="1h",
            note="again",
        )
        assert (run.ref, run) == ("train", client.get("@last"))
        spec = api.get("Job", namespace, "train")["spec"]
        [container] = spec["tasks"][0]["template"]["spec"]["containers"]
        assert container["command"] == ["python", "train.py", "--lr", "0.1"]
        assert (container["image"], container["workingDir"]) == ("busybox:1.36", "/workspace")
        assert (spec["queue"], spec["activeDeadlineSeconds"]) == ("default", 3600)
        assert run.wait("running", timeout=PATIENCE).outcome == "Running"
        assert run.code("back") == []
        assert Path("back/train.py").read_text() == Path("train.py").read_text()
        run.scale({"worker": 2})
        eventually("it is larger", lambda: len(run.pods()) == 2 and run.status().outcome == "Running")
        run.restart()
        run.wait("running", timeout=PATIENCE)
        assert run.suspend().outcome == "Suspended"
        run.resume()
        run.wait("running", timeout=PATIENCE)
        with pytest.raises(pumice.WrongState, match=r"run\.stop\(\), or force=True$"):
            run.remove()
        assert run.stop().outcome == "Stopped"
        run.remove()
        assert client.runs(all=True) == []


def test_a_name_that_is_taken(kubelet: FakeKubelet) -> None:
    with pumice.connect("admin") as client:
        job = pumice.load("job.yaml")
        first = client.submit(job)
        with pytest.raises(pumice.PumiceError, match=r'hint: name="train-2"$'):
            client.submit(job)
        first.wait("running", timeout=PATIENCE)
        kubelet.behaviour = lambda _pod: ENDS
        first.stop()
        with pytest.raises(pumice.PumiceError, match=r'hint: replace=True, or name="train-2"$'):
            client.submit(job)
        second = client.submit(job, replace=True)
        assert second != first
        assert second.wait(timeout=PATIENCE).ok
        with pytest.raises(pumice.NoSuchRun, match="was replaced by another Job"):
            first.status()


def test_a_block_stops_its_job_unless_it_is_detached(kubelet: FakeKubelet) -> None:
    del kubelet
    with pumice.connect("admin") as client:
        with client.start(pumice.load("job.yaml")) as run:
            run.wait("running", timeout=PATIENCE)
            assert next(iter(run.logs())).text.startswith("epoch ")
        assert run.status().outcome == "Stopped"
        with client.start(pumice.load("job.yaml"), name="other") as other:
            other.wait("running", timeout=PATIENCE)
            other.detach()
        assert other.status().outcome == "Running"


def test_an_asynchronous_client_does_the_same(
    pumice_cluster: Cluster, kubelet: FakeKubelet, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = pumice_cluster

    async def story() -> None:
        job = pumice.load("job.yaml")
        async with pumice.AsyncClient(context="admin") as client:
            async with await client.start(job) as run:
                await run.wait("running", timeout=PATIENCE)
            assert (await run.status()).outcome == "Stopped"
            kubelet.behaviour = lambda _pod: ENDS
            assert (await client.run(job, name="second")).ok
            assert (await (await client.submit(job, name="third")).wait(timeout=PATIENCE)).ok
            kubelet.behaviour = lambda _pod: RUN_UNTIL_STOPPED
            running = asyncio.create_task(client.run(job, name="fourth"))
            await asyncio.to_thread(eventually, "it runs", lambda: phase(cluster, namespace, "fourth") == "Running")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await (await client.get("fourth")).status()).outcome == "Stopped"
            # Cancelled as soon as there is a Job, before anyone has its handle.
            lease = await client.lease(job, {"name": "fifth"})

            def listener(_event: RunEvent) -> None:
                opening.cancel()

            opening = asyncio.create_task(lease.open(listener))
            with pytest.raises(asyncio.CancelledError):
                await opening
            assert (await (await client.get("fifth")).status()).outcome == "Stopped"

    asyncio.run(story())
    assert "run second   on admin/" in capsys.readouterr().err


TEST = """\
import pumice
import pytest


@pytest.mark.parametrize("number", [1, 2])
def test_it(pumice_client, number):
    job = pumice.load("job.yaml")
    with pumice_client.start(job, replace=False) as run:
        run.wait("running", timeout="10m")
        assert number == 1
    pumice_client.submit(job, name="other")
"""


def test_pytest_starts_jobs_and_deletes_them(kubelet: FakeKubelet, api: Api, namespace: str, tmp_path: Path) -> None:
    """Both tests start a Job of the same name, and the second one fails."""
    del kubelet
    api.create("Job", namespace, {**yaml.safe_load(JOB), "metadata": {"name": "of-somebody-else"}})
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["pumice.testing"]\n')
    (tmp_path / "test_it.py").write_text(TEST)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--pumice-on=admin",
        "--basetemp=kept",
    ]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "assert 2 == 1" in done.stdout
    assert [each["metadata"]["name"] for each in api.list("Job", namespace)] == ["of-somebody-else"]
    archives = sorted(each.name.rpartition("-")[0] for each in tmp_path.glob("kept/pumice[0-9]*/*.tar.gz"))
    assert archives == ["other", "train", "train"]


RUN = """\
import pumice

try:
    pumice.connect("admin").run(pumice.load("job.yaml"))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_stops_it_and_a_second_leaves_it(
    kubelet: FakeKubelet, controllers: Controllers, namespace: str, times: int
) -> None:
    del kubelet
    api, out = controllers.cluster.api(), Path("out")
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with out.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", RUN], env=environ, stdout=file, stderr=file)
    eventually("it runs", lambda: "Running    2/2" in out.read_text())
    if times > 1:
        controllers.started[0].stop()  # nobody obeys the first
    process.send_signal(signal.SIGINT)
    if times > 1:
        eventually("the first was noticed", lambda: api.list("Command", namespace) != [])
        process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert out.read_text().endswith("interrupted\n")
    assert phase(controllers.cluster, namespace, "train") == ("Terminated" if times == 1 else "Running")
