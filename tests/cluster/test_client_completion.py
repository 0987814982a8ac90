"""Completion of what a cluster knows: at once, or nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pumice.cli.main import main
from tests.cluster.api import Api
from tests.cluster.cluster import Cluster
from tests.cluster.staged_jobs import StagedJob
from tests.unit.cli.running import COMMAND

PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "IfAvailable"}
Complete = Callable[..., None]


@pytest.fixture
def complete(
    pumice_cluster: Cluster, api: Api, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Complete:
    """Ask for names as the scripts do, in a namespace with two Jobs."""
    for name in ("train", "other"):
        StagedJob(api, namespace, name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig(namespace=namespace)))
    # What the limit is about is another test: a machine with load takes longer.
    monkeypatch.setattr("pumice.client.cluster.reads.names._LEAST", 30.0)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PUMICE_ON"):
        monkeypatch.delenv(name, raising=False)
    return _complete


def _complete(what: str, *words: str) -> None:
    assert main(["completion", "--names", what, "--line", *words]) == 0


@pytest.mark.parametrize(
    ("what", "words", "names"),
    [
        pytest.param("runs", ("get", "--on", "admin"), ["other", "train"], id="Jobs"),
        pytest.param("runs", ("get", "--on=admin"), ["other", "train"], id="one word"),
        pytest.param("runs", ("get", "--on", "=", "admin"), ["other", "train"], id="as bash has it"),
        pytest.param("runs", ("logs", "-f", "--context", "admin", "-n", "default"), [], id="another namespace"),
        pytest.param("runs", ("get", "--on", "nowhere"), [], id="no such context"),
        pytest.param("runs", ("get",), ["@last"], id="this machine"),
        pytest.param("runs", ("get", "--on", "local"), ["@last"], id="this machine by name"),
        pytest.param("contexts", ("get", "--on"), ["local", "admin"], id="contexts"),
        pytest.param("contexts", ("get", "--kubeconfig", "/nonexistent", "--on"), ["local"], id="no kubeconfig"),
        pytest.param("namespaces", ("get", "-n"), [], id="no namespaces here"),
    ],
)
def test_names(
    complete: Complete, capsys: pytest.CaptureFixture[str], what: str, words: tuple[str, ...], names: list[str]
) -> None:
    complete(what, *words)
    assert capsys.readouterr().out.split() == names


def test_namespaces_and_the_environment(
    complete: Complete, capsys: pytest.CaptureFixture[str], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUMICE_ON", "admin")
    complete("namespaces", "ps", "-n")
    assert {namespace, "default", "kube-system"} <= set(capsys.readouterr().out.split())
    complete("runs", "why")
    assert capsys.readouterr().out.split() == ["other", "train"]


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that takes connections and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({}, id="a server that does not answer"),
        pytest.param({"exec": {**PLUGIN, "command": "sleep", "args": ["600"]}}, id="a plugin that hangs"),
        pytest.param({"exec": {**PLUGIN, "command": "cat", "interactiveMode": "Always"}}, id="a plugin that asks"),
    ],
)
def test_nothing_is_waited_for(silent_server: str, user: dict[str, dict[str, object]], tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": silent_server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(path)}
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    took = []
    for words in (["--line", "get"], ["--line", "get", "--on", "prod"]):
        begin = time.monotonic()
        argv = [*COMMAND, "completion", "--names", "runs", *words]
        done = subprocess.run(argv, env=environ, capture_output=True, check=False)
        took.append(time.monotonic() - begin)
        assert done.returncode == 0
    assert done.stdout.split() == []
    assert done.stderr == b""
    # A program without a cluster takes as long to load; the machine may be busy.
    assert took[1] < 5 * took[0] + 5
