"""`exec`, `cp` and `forward` that are cut off: by the network, with the pod, or by their user."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.pod_server import PodServer
from tests.cluster.pod_shell import Shell
from tests.cluster.staged_jobs import StagedJob
from tests.cluster.tcp_relay import TcpRelay
from tests.patience import PATIENCE

POD = "train-worker-0"
LOST = "the connection was lost"
KILLED = "tar was killed there, perhaps with its pod"
AGAIN = "  hint: copy again: what has come is whole, but for a file that was there before"
MIDDLE = 900_000  # bytes of what is copied
# Sends or takes a part of an archive, and hangs there.
SLOW_TAR = f"""#!/bin/sh
if [ "$3" = -xof ]; then head -c {MIDDLE} > part; else {shutil.which("tar")} "$@" | head -c {MIDDLE}; fi
echo > halfway
exec sleep 600
"""


@pytest.fixture
def relay(pumice_cluster: Cluster) -> Iterator[TcpRelay]:
    port = urlsplit(pumice_cluster.server).port
    assert port is not None
    with TcpRelay(port) as found:
        yield found


@pytest.fixture
def shell(pumice_cluster: Cluster, namespace: str, home: Path, job_with_pods: StagedJob, relay: TcpRelay) -> Shell:
    del job_with_pods
    return Shell(pumice_cluster, namespace, home, server=f"https://127.0.0.1:{relay.port}")


def _cut_off(how: str, process: subprocess.Popen[bytes], relay: TcpRelay, pods: PodServer) -> tuple[int, list[str]]:
    """Return the exit code, and what was said."""
    match how:
        case "network":
            relay.cut()
        case "server":
            relay.go_away()
        case "pod":
            pods.kill_commands()
        case "user":
            process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said.decode().splitlines()


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        pytest.param(
            "network",
            1,
            [
                f"train/worker-0: {LOST}",
                "  hint: the command may still run: pumice exec train/worker-0 -- ps shows it",
            ],
            id="network",
        ),
        # As of any program that is killed there.
        pytest.param("pod", 137, [], id="pod"),
    ],
)
def test_a_command(  # noqa: PLR0917 - parameters of the test
    shell: Shell, relay: TcpRelay, pods: PodServer, how: str, code: int, said: list[str]
) -> None:
    process = shell.popen("exec", "train/worker-0", "--", "sh", "-c", "echo up; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    assert _cut_off(how, process, relay, pods) == (code, said)


@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        pytest.param("network", 1, LOST, id="network"),
        pytest.param("server", 1, LOST, id="server"),
        pytest.param("pod", 1, KILLED, id="pod"),
        pytest.param("user", 130, "", id="user"),
    ],
)
@pytest.mark.parametrize("words", [("train/worker-0:data", "data"), ("data", "train/worker-0:.")])
def test_a_copy(  # noqa: PLR0917 - parameters of the test
    shell: Shell, relay: TcpRelay, pods: PodServer, home: Path, words: tuple[str, str], how: str, code: int, why: str
) -> None:
    """What came whole stays; of a file that was on its way, nothing is left on this machine."""
    folder, (source, target) = pods.pod_folder(POD), words
    is_from_pod = source != "data"
    tree = (folder if is_from_pod else home) / "data"
    tree.mkdir()
    # tar sends them in the order of the directory.
    (tree / "whole").write_bytes(b"x" * 1000)
    (tree / "large").write_bytes(os.urandom(2 * MIDDLE))
    (folder / "bin" / "tar").unlink()
    (folder / "bin" / "tar").write_text(SLOW_TAR)
    (folder / "bin" / "tar").chmod(0o755)
    process = shell.popen("cp", source, target)
    eventually("it is in the middle", (folder / "halfway").exists)
    if is_from_pod:
        eventually("the part has come", (home / "data" / "large").exists)
    remote = source if is_from_pod else target
    said = [f"train/worker-0:{remote.partition(':')[2]}: the copy ended too early: {why}", AGAIN] if why else []
    assert _cut_off(how, process, relay, pods) == (code, said)
    if is_from_pod:
        assert not (home / "data" / "large").exists()


def test_a_port(shell: Shell, relay: TcpRelay, pods: PodServer, api: Api, namespace: str) -> None:
    """Each connection that is lost is said in a line, and the port stays open for the next."""
    process = shell.popen("forward", "train/worker-0", "6006")
    assert process.stdout is not None
    assert process.stderr is not None
    local = ("127.0.0.1", int(process.stdout.readline().decode().rpartition(":")[2]))
    said = [process.stderr.readline().decode()]

    def ended(connection: socket.socket) -> str:
        assert connection.recv(100) == b""
        while not (line := process.stderr.readline().decode() if process.stderr else "").startswith("train/"):
            said.append(line)
        return line

    with socket.create_server(("127.0.0.1", 0)) as service:
        service.settimeout(PATIENCE)
        pods.ports[6006] = service.getsockname()[1]

        def connected() -> tuple[socket.socket, socket.socket]:
            ours = socket.create_connection(local, timeout=PATIENCE)
            theirs, _ = service.accept()
            theirs.sendall(b"up")
            assert ours.recv(100) == b"up"
            return ours, theirs

        for _ in range(2):
            ours, theirs = connected()
            with ours, theirs:
                relay.cut()
                assert ended(ours) == (
                    "train/worker-0: a connection ended: the cluster was lost; a new one may succeed\n"
                )
        api.delete("Pod", namespace, POD, {"gracePeriodSeconds": 0})
        with socket.create_connection(local, timeout=PATIENCE) as ours:
            line = ended(ours)
    assert line == "train/worker-0: a connection ended: train/worker-0: there is no such pod now: the Job is Running\n"
    process.terminate()
    process.wait(PATIENCE)
    process.stdout.close()
    process.stderr.close()
    assert not any("Traceback" in each for each in said)
