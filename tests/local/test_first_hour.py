"""A new user's first hour, with an empty home: from the clone to jobs of their own that fail, and then work.

`make soak` plays the whole of it, as an ordinary user with nothing but what the README requires; only packages that
uv has downloaded may be shared (UV_CACHE_DIR). `make test` plays what follows `make run`.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.frameworks import TORCH, find
from tests.local.running import Result
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
# What a user's machine may need to reach the package index.
NETWORK = ("http_proxy", "https_proxy", "no_proxy", "UV_CACHE_DIR", "PIP_INDEX_URL", "UV_DEFAULT_INDEX")
TRAIN = """
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(32, 4)
losses = []
for _ in range(20):
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: loss went down", flush=True)
dist.destroy_process_group()
os._exit(0)  # DistributedDataParallel keeps threads of the group, which may crash the process in torch's exit
"""
DEAD_RANK = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: dead-rank}
spec:
  plugins: {env: []}
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: worker
          image: busybox
          command: [sh, -c, 'test $VC_TASK_INDEX = 0 || { echo cannot read the data; exit 5; }; exec sleep 600']
"""
# A shell in the foreground, also where the tests run in the background and ignore Ctrl-C.
FOREGROUND = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"
)


@dataclass
class Shell:
    """Types commands in a directory, as a user who has nothing but a home and the programs of the system."""

    home: Path
    user: int  # of the commands
    path: str = SYSTEM
    cwd: Path = Path("/")

    @property
    def environ(self) -> dict[str, str]:
        shared = {name: os.environ[name] for name in NETWORK if name in os.environ}
        return {**shared, "HOME": str(self.home), "PATH": self.path, "LANG": "C.UTF-8"}

    def write(self, name: str, text: str) -> None:
        (self.cwd / name).write_text(text, encoding="utf-8")
        os.chown(self.cwd / name, self.user, -1)

    def change_directory(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        os.chown(directory, self.user, -1)
        self.cwd = directory

    def start(self, command: str) -> subprocess.Popen[str]:
        another = os.geteuid() != self.user
        return subprocess.Popen(
            ["python3", "-c", FOREGROUND, "sh", "-c", f"exec {command}"],
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=self.user if another else None,
            group=pwd.getpwuid(self.user).pw_gid if another else None,
            extra_groups=[] if another else None,
        )

    def run(self, command: str, code: int = 0) -> Result:
        process = self.start(command)
        try:
            out, err = process.communicate(timeout=1200)
        finally:
            process.kill()
        assert process.returncode == code, f"$ {command}\n{out}{err}"
        return Result(process.returncode, out, err)


def test_jobs_of_your_own(tmp_path: Path) -> None:
    need_namespaces()
    found = find(TORCH, os.environ, ROOT)
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)("no torch: make run fetches it")
    shell = Shell(tmp_path / "home", os.geteuid(), f"{Path(sys.executable).parent}:{SYSTEM}")
    shell.home.mkdir()
    _jobs_of_your_own(shell, found.venv or found.python)


@pytest.fixture
def ordinary() -> Iterator[Shell]:
    """A shell of an ordinary user in a home that is empty but for the repository to clone."""
    user = os.geteuid() or pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        repository = Path(home) / "upstream"
        git = ["git", "-c", f"safe.directory={ROOT}"]
        listed = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        for name in filter(lambda each: (ROOT / each).is_file(), filter(None, names)):
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, repository / name)
        for path in (Path(home), *Path(home).rglob("*")):
            os.chown(path, user, -1)
        yield Shell(Path(home), user, cwd=Path(home))


@pytest.mark.soak
def test_from_the_clone_to_jobs_of_your_own(ordinary: Shell) -> None:
    need_namespaces()
    me = "-c user.name=me -c user.email=me@example.org"
    ordinary.run(f"sh -c 'cd upstream && git init -q && git add -A && git {me} commit -qm all'")
    ordinary.run("git clone -q upstream pumice")
    ordinary.cwd = ordinary.home / "pumice"
    made = ordinary.run("make run")
    assert "master-0  ring closed: 42.0\n" in made.out
    # From the same shell, once it has typed what the last line says.
    assert made.err.splitlines()[-1] == 'next: export PATH="$PWD/.venv/bin:$PATH" && pumice init --help'
    ordinary.path = f"{ordinary.cwd}/.venv/bin:{SYSTEM}"
    again = ordinary.run("pumice run examples/pytorch-job.yaml")
    assert "master-0  ring closed: 42.0\n" in again.out
    assert re.search(r"^  python ~/.cache/pumice/torch/bin/python 3\.\d+, torch ", again.err, re.MULTILINE)
    _jobs_of_your_own(ordinary, str(ordinary.home / ".cache" / "pumice" / "torch"))


def _jobs_of_your_own(shell: Shell, torch: str) -> None:
    shell.change_directory(shell.home / "my project")
    shell.write("train.py", TRAIN)
    assert "next: pumice run train.yaml" in shell.run("pumice init train.py --workers 2").err
    assert shell.run("pumice validate train.yaml").err == "train.yaml: train: good (2 pods)\n"

    # A Python without torch, and how to choose another.
    shell.run("python3 -m venv --without-pip ../plain")
    failed = shell.run("pumice run train.yaml --python ../plain", code=1)
    python = re.search(r"^  python (~/plain/bin/python3? 3\.\d+, no torch)$", failed.err, re.MULTILINE)
    assert python is not None, failed.err
    *_, last = failed.verdict
    # Pumice knows the torch that `make run` fetched.
    known = Path(torch).is_relative_to(shell.home)
    chosen = shlex.quote(f"{torch}/bin/python3" if known else torch)
    named, it = (chosen, "it") if known else ("PATH", "PATH")
    assert last == f"  next          pumice run train.yaml --python {named}     {it} has torch; this was {python[1]}"
    assert "No module named 'torch'" in _log(failed).read_text(encoding="utf-8")
    trained = shell.run(f"pumice run train.yaml --python {chosen}")
    lines = {f"{pod}-0  rank {rank} of 2: loss went down" for rank, pod in enumerate(("master", "worker"))}
    assert {re.sub(" +", "  ", line, count=1) for line in trained.out.splitlines()} >= lines, trained.out

    # GPUs that this machine does not have: the last line is the command that runs the job.
    shell.write("report.sh", "echo rank $RANK of $WORLD_SIZE\n")
    shell.run("pumice init report.sh --gpus 64 --workers 2")
    refused = shell.run("pumice run report.yaml", code=2)
    assert refused.err.splitlines()[-1] == "pumice run report.yaml --fit"
    fitted = shell.run(refused.err.splitlines()[-1])
    assert "  fit: worker: nvidia.com/gpu 64 is left out: this machine has " in fitted.err
    assert sorted(fitted.out.splitlines()) == ["master-0  rank 0 of 2", "worker-0  rank 1 of 2"]

    # A rank that dies is reported at once; Ctrl-C; the log that the verdict names.
    shell.write("dead-rank.yaml", DEAD_RANK)
    process = shell.start("pumice run dead-rank.yaml")
    assert process.stderr is not None
    printed = ""
    for line in process.stderr:
        printed += line
        if " failed: " in line:
            break
    assert printed.splitlines()[-1].endswith(
        "worker-1 failed: exit code 5; no policy acts on PodFailed, the job goes on with 1 of 2"
    ), printed
    process.send_signal(signal.SIGINT)
    stopped = process.communicate(timeout=120)[1]
    assert process.returncode == 130, printed + stopped
    verdict = Result(130, "", stopped)
    assert verdict.verdict[0] == "dead-rank was stopped by Ctrl-C"
    assert verdict.verdict[1].startswith("  failed        worker-1: exit code 5 ")
    run = re.search(r"^  run dead-rank:1   (/.*)$", printed, re.MULTILINE)
    assert run is not None
    assert _log(verdict).is_relative_to(run[1])
    assert shell.run(verdict.verdict[-1].removeprefix("  next")).out == "worker-1  cannot read the data\n"


def _log(result: Result) -> Path:
    """The log file that a verdict names."""
    for line in result.verdict:
        if line.startswith("  log "):
            return Path(line.removeprefix("  log").strip())
    raise AssertionError(result.err)
