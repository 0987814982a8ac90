"""What `pumice init` writes runs as it stands, with real torch, Open MPI, TensorFlow and Ray."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.frameworks import RAY, TENSORFLOW, TORCH, Framework, environment, find
from tests.local.running import need_login
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"
SCRIPTS = {
    "torch": """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
number = torch.ones(1)
dist.all_reduce(number)
print("rank", dist.get_rank(), "sum", int(number), flush=True)
dist.destroy_process_group()
""",
    "mpi": """
import os
print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "sum", os.environ["OMPI_COMM_WORLD_SIZE"], flush=True)
""",
    "tensorflow": """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
ones = strategy.run(lambda: tf.constant(1.0))
total = strategy.reduce(tf.distribute.ReduceOp.SUM, ones, axis=None)
print("rank", strategy.cluster_resolver.task_id, "sum", int(total), flush=True)
""",
    "ray": """
import os, ray
ray.init()
alive = lambda: [node for node in ray.nodes() if node["Alive"] and "-driver-" not in node["NodeManagerHostname"]]
while len(alive()) < 2:
    pass
one = ray.remote(lambda: 1)
print("rank 0 sum", sum(ray.get([one.remote() for _ in range(8)])), flush=True)
""",
}


def _pumice(*words: str, cwd: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *words],
        cwd=cwd,
        env={**environ, "PYTHONPATH": str(ROOT / "src"), "XDG_STATE_HOME": str(cwd / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _environ(framework: Framework | None) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "NO_COLOR")}
    if framework is None:
        return plain
    found = find(framework, os.environ, ROOT)
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)(f"no {framework.name}: make examples fetches it")
    return environment(found, plain)


@pytest.mark.parametrize(
    ("name", "framework", "sums"),
    [
        pytest.param("torch", TORCH, {(0, 2), (1, 2)}, id="torch", marks=pytest.mark.soak),
        pytest.param("mpi", None, {(0, 2), (1, 2)}, id="mpi", marks=pytest.mark.needs("mpiexec", "sshd")),
        pytest.param("tensorflow", TENSORFLOW, {(0, 2), (1, 2)}, id="tensorflow", marks=pytest.mark.soak),
        pytest.param("ray", RAY, {(0, 8)}, id="ray", marks=pytest.mark.soak),
    ],
)
def test_the_written_file_runs_as_it_stands(
    name: str, framework: Framework | None, sums: set[tuple[int, int]], tmp_path: Path
) -> None:
    need_namespaces()
    if name == "mpi":
        need_login()
    environ = _environ(framework)
    here = tmp_path / "a project"
    here.mkdir()
    (here / "train.py").write_text(SCRIPTS[name], encoding="utf-8")
    written = _pumice("init", "train.py", "--framework", name, cwd=here, environ=environ)
    assert (written.returncode, written.stdout) == (0, ""), written.stderr
    done = _pumice("run", "train.yaml", "--timeout=150s", cwd=here, environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(r"(?m)^[a-z]+-\d +rank (\d) sum (\d)$", done.stdout)
    assert {(int(rank), int(total)) for rank, total in said} == sums
    assert len(said) == len(sums)


def test_a_script_that_reads_local_rank_gets_it(tmp_path: Path) -> None:
    need_namespaces()
    environ = _environ(None)
    (tmp_path / "train.py").write_text('import os; print("local rank", os.environ["LOCAL_RANK"])', encoding="utf-8")
    assert _pumice("init", "train.py", "--workers=2", cwd=tmp_path, environ=environ).returncode == 0
    done = _pumice("run", "train.yaml", cwd=tmp_path, environ=environ)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["master-0  local rank 0", "worker-0  local rank 0"]


def test_a_job_with_gpus_runs_by_the_command_of_its_first_line(tmp_path: Path) -> None:
    need_namespaces()
    environ = _environ(None)
    (tmp_path / "train.sh").write_text("echo rank $RANK of $WORLD_SIZE", encoding="utf-8")
    assert _pumice("init", "train.sh", "--gpus=64", "--workers=2", cwd=tmp_path, environ=environ).returncode == 0
    refused = _pumice("run", "train.yaml", cwd=tmp_path, environ=environ)
    assert refused.returncode == 2
    first = (tmp_path / "train.yaml").read_text(encoding="utf-8").partition("\n")[0]
    command = refused.stderr.splitlines()[-1]
    assert command in first
    done = _pumice(*command.split()[1:], cwd=tmp_path, environ=environ)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["master-0  rank 0 of 2", "worker-0  rank 1 of 2"]
