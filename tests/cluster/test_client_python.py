"""`pumice.connect`, sync and async, and pytest's option: everything that reads works on a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pumice
from tests.cluster.api import Api
from tests.cluster.cluster import Cluster
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.staged_jobs import StagedJob


@pytest.fixture
def job(
    pumice_cluster: Cluster, api: Api, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StagedJob]:
    """A failed Job, whose pods have printed two lines."""
    job = StagedJob(api, namespace)
    job.fail()
    job.event("FailedCreate", "exceeded quota: small")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PUMICE_ON"):
        monkeypatch.delenv(name, raising=False)
    with LogServer(pumice_cluster) as server:
        monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig(server=server.server, namespace=namespace)))
        server.outputs["train-worker-0", False] = ContainerOutput([("2026-11-18T12:00:02Z", "two")])
        server.outputs["train-worker-1", False] = ContainerOutput([("2026-11-18T12:00:01Z", "one")])
        yield job


def test_a_client_reads_everything(job: StagedJob) -> None:
    with pumice.connect("admin") as client:
        assert [run.ref for run in client.runs()] == ["train"]
        assert client.runs(active=True) == []
        assert [run.uid for run in client.runs("train", all=True)] == [job.uid]
        run = client.get("train")
        assert run == client.get(f"train@{job.uid[:8]}")
        assert (run.status().outcome, run.status().on) == ("Failed", "admin")
        assert (run.wait("finished", timeout="1m").exit_code, run.wait("Failed").ok) == (3, False)
        with pytest.raises(pumice.RunFailed):
            run.wait(check=True)
        assert [line.text for line in run.logs(follow=False)] == ["one", "two"]
        assert [line.text for line in run.logs()] == ["one", "two"]
        assert [(line.pod, line.text) for line in run.logs(pod="worker-1", tail=1, follow=False)] == [
            ("worker-1", "one")
        ]
        assert [line.text for line in run.logs(task="worker", grep="tw", attempt=1, follow=False)] == ["two"]
        assert list(run.logs(since="1s", follow=False)) == []
        kinds = [event.type for event in run.events(follow=False)]
        assert kinds == [event.type for event in run.events()]
        assert {"phase", "pod", "warning", "verdict"} <= set(kinds)
        assert (run.why().code, run.why("worker-0").code) == ("Failed", "Failed")
        assert [(pod.name, pod.code) for pod in run.pods()] == [("worker-0", 3), ("worker-1", None)]
        assert [attempt.first_failure.partition(" in ")[0] for attempt in run.history()] == ["worker-0: exit code 3"]
        with pytest.raises(pumice.Unsupported, match="metrics-server"):
            run.top()
        assert "train" in run._repr_html_()
        assert pickle.loads(pickle.dumps(run)).status().outcome == "Failed"
        with pytest.raises(pumice.NoSuchRun):
            client.get("trian")
        with pytest.raises(pumice.NoSuchPod):
            list(run.logs(pod="worker-9", follow=False))
        with pytest.raises(pumice.PumiceError):
            run.code("code")
        assert run.stop().outcome == "Failed"  # it has ended
        for change in (run.suspend, run.resume, run.restart, lambda: run.scale({"worker": 1})):
            with pytest.raises(pumice.WrongState, match=r"^train is not "):
                change()
        run.remove()
        with pytest.raises(pumice.NoSuchRun):
            run.status()


def test_an_asynchronous_client_reads_the_same(job: StagedJob) -> None:
    async def story() -> None:
        async with pumice.AsyncClient(context="admin", namespace=job.namespace) as client:
            [run] = await client.runs()
            assert (await client.get("train")).uid == run.uid == job.uid
            assert (await run.status()).outcome == "Failed"
            assert (await run.wait(timeout=60)).exit_code == 3
            assert [line.text async for line in run.logs(follow=False)] == ["one", "two"]
            assert [line.text async for line in run.logs()] == ["one", "two"]
            assert "verdict" in [event.type async for event in run.events()]
            assert (await run.why()).code == "Failed"
            assert [pod.name for pod in await run.pods()] == ["worker-0", "worker-1"]
            assert len(await run.history()) == 1

    asyncio.run(story())


def test_no_context_of_that_name(job: StagedJob) -> None:
    del job
    for client in (pumice.connect, lambda name: pumice.AsyncClient(context=name)):
        with pytest.raises(pumice.InvalidOption, match="did you mean admin"):
            client("admim")


TEST = """\
def test_reads(pumice_client):
    assert [run.ref for run in pumice_client.runs()] == {runs}
"""


@pytest.mark.parametrize(
    ("flags", "runs", "code"),
    [
        pytest.param(("--pumice-on=admin",), ["train"], 0, id="on a cluster"),
        pytest.param(("--pumice-on=admin", "--pumice-namespace=default"), [], 0, id="in another namespace"),
        pytest.param((), [], 0, id="PUMICE_ON is ignored"),
        pytest.param(("--pumice-on=nowhere",), [], 1, id="no such context"),
    ],
)
def test_the_option_of_pytest(
    job: StagedJob, tmp_path: Path, flags: tuple[str, ...], runs: list[str], code: int
) -> None:
    del job
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["pumice.testing"]\n')
    (tmp_path / "test_it.py").write_text(TEST.format(runs=runs))
    environ = {**os.environ, "PUMICE_ON": "admin", "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *flags]
    done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("has no context 'nowhere'" in done.stdout) == (code == 1)


def test_a_user_who_impersonates_a_member_of_a_group(
    pumice_cluster: Cluster, job: StagedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads(pumice_cluster.kubeconfig(namespace=job.namespace).read_text())
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    user = config["users"][0]["user"]
    user |= {"as": "jane", "as-groups": ["readers", "system:masters"], "as-user-extra": {"acme.com/team": ["a"]}}
    path.write_text(json.dumps(config))
    with pumice.connect("admin") as client:
        assert [run.ref for run in client.runs()] == ["train"]
    user["as-groups"] = ["readers"]
    path.write_text(json.dumps(config))
    with pumice.connect("admin") as client, pytest.raises(pumice.Denied, match='User "jane" cannot list'):
        client.runs()
