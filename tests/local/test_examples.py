"""The documented jobs run on this machine as they stand, with real torch and Open MPI, and print what they must."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import torch_env
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
EXAMPLES = ROOT / "examples"
IMAGE = "gcr.io/kubeflow-ci/pytorch-dist-sendrecv-test:1.0"
MAIN = "import sys; from pumice.cli.main import main; sys.exit(main())"
# What stands in where torch does not matter: the master accepts every worker, and each tells its rank.
RING = """
import os, socket
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank:
    with socket.create_connection(place, 30) as master:
        master.sendall(bytes([rank]))
        print("told", master.recv(1)[0], flush=True)
else:
    server, seen = socket.create_server(("", place[1])), []
    while len(seen) < size - 1:
        worker, _ = server.accept()
        if data := worker.recv(1):
            seen.append((data[0], worker))
    for number, worker in seen:
        worker.sendall(bytes([number]))
    print("seen", sorted(number for number, _ in seen), flush=True)
"""


def _run(arguments: list[str], environ: dict[str, str], state: Path) -> subprocess.CompletedProcess[str]:
    """`pumice run` as a program of its own, which cannot hang for good and whose state is nobody else's."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, "run", "--timeout=100s", *arguments],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT / "src"), "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def _said_by_pods(output: str) -> set[str]:
    """The lines of pods, whatever time it took them."""
    return {re.sub(r"after \d+s", "after Ns", line) for line in re.findall(r"(?m)^(?:master|worker)-\d.*$", output)}


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "NO_COLOR")}


@pytest.fixture
def with_torch() -> dict[str, str]:
    found = torch_env.find(os.environ, ROOT)
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)("no torch: make run fetches it")
    return torch_env.environment(found, _environ())


def test_the_pytorch_job_sends_a_number_around_all_ranks(with_torch: dict[str, str], tmp_path: Path) -> None:
    done = _run(["examples/pytorch-job.yaml"], with_torch, tmp_path)
    assert done.returncode == 0, done.stderr
    # The readers of the first page are shown these very lines.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = _said_by_pods(readme.partition("```text\n")[2].partition("```")[0])
    assert "master-0  ring closed: 42.0" in shown
    assert shown <= _said_by_pods(done.stdout)


def test_the_pytorch_job_finds_its_ranks_without_torch(tmp_path: Path) -> None:
    script = tmp_path / "ring.py"
    script.write_text(RING, encoding="utf-8")
    entrypoint = f"{IMAGE}=python3 {script}"
    done = _run(
        ["examples/pytorch-job.yaml", f"--mount={tmp_path}", f"--entrypoint={entrypoint}"], _environ(), tmp_path / "s"
    )
    assert done.returncode == 0, done.stderr
    assert "master-0  seen [1, 2]" in done.stdout.splitlines()


@pytest.mark.needs("mpiexec", "sshd")
def test_the_mpi_job_says_hello_from_every_worker(tmp_path: Path) -> None:
    # The workers' first process is a shell, which ignores SIGTERM: the job ends after their grace period, as anywhere.
    done = _run(["examples/lm-mpi-job.yaml", "--keep"], _environ(), tmp_path)
    assert done.returncode == 0, done.stderr
    [result] = tmp_path.rglob("home/re")
    assert sorted(result.read_text(encoding="utf-8").splitlines()) == [
        f"Hello world from processor lm-mpi-job-mpiworker-{rank}, rank {rank} out of 2 processors" for rank in (0, 1)
    ]
