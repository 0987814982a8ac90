"""The documented PyTorch and MPI jobs as plain processes, as on a machine that refuses namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.frameworks import TORCH, environment, find
from tests.local.running import need_login
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
IMAGE = "gcr.io/kubeflow-ci/pytorch-dist-sendrecv-test:1.0"
MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"
# Replaces torch: the master waits until every worker has connected.
RANKS = """
import os, socket
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank:
    with socket.create_connection(master, 30) as connection:
        connection.sendall(bytes([rank]))
        connection.recv(1)
else:
    server, heard = socket.create_server(("", master[1])), {}
    while len(heard) < size - 1:
        worker, _ = server.accept()
        # wait-for-master connects and sends nothing.
        if said := worker.recv(1):
            heard[said[0]] = worker
    print("heard of", *sorted(heard), flush=True)
"""


def _run(arguments: list[str], environ: dict[str, str], state: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, "run", "--isolation=process", "--no-prefix", "--timeout=150s", *arguments],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT / "src"), "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}


@pytest.mark.needs("mpiexec", "sshd")
def test_mpi(tmp_path: Path) -> None:
    need_login()
    done = _run(["--keep", "examples/lm-mpi-job.yaml"], _environ(), tmp_path)
    assert done.returncode == 0, done.stderr
    # A master that starts before the workers' sshd fails and is restarted; the last one counts.
    result = max(tmp_path.rglob("home/re"))
    lines = sorted(result.read_text(encoding="utf-8").splitlines())
    assert [line.partition(", ")[2] for line in lines] == [f"rank {rank} out of 2 processors" for rank in (0, 1)]
    # Without a login to both workers, everything would have run in the master.
    assert done.stdout.count("Permanently added") >= 2


def test_pytorch_without_torch(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(RANKS, encoding="utf-8")
    arguments = [f"--entrypoint={IMAGE}=python3 {script}", f"--mount={tmp_path}", "examples/pytorch-job.yaml"]
    done = _run(arguments, _environ(), tmp_path / "state")
    assert done.returncode == 0, done.stderr
    assert "heard of 1 2" in done.stdout.splitlines()


@pytest.mark.soak
def test_pytorch_with_torch(tmp_path: Path) -> None:
    found = find(TORCH, os.environ, ROOT)
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)("no torch: make examples fetches it")
    done = _run(["examples/pytorch-job.yaml"], environment(found, _environ()), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ring closed: 42.0" in done.stdout.splitlines()
