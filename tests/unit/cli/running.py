"""Runs commands, in the process of the tests or in a child process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pumice.cli.main import main
from tests.patience import PATIENCE

EXAMPLES = Path(__file__).parents[3] / "examples"
PYTORCH = str(EXAMPLES / "pytorch-job.yaml")
COMMAND = (sys.executable, "-c", "import sys; from pumice.cli.program import main; sys.exit(main())")

# A cluster that does not answer.
UNREACHABLE = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: small
spec:
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: busybox
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Terminal:
    """Runs commands in this process, in a directory with the files of the test."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def write(self, text: str, name: str = "job.yaml") -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def run(self, *words: str) -> Result:
        self._capsys.readouterr()
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *self._capsys.readouterr())


def child(*words: str, stdin: str = "", env: dict[str, str] | None = None, cwd: Path | None = None) -> Result:
    done = subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, text=True, env=env, cwd=cwd, timeout=PATIENCE, check=False
    )
    return Result(done.returncode, done.stdout, done.stderr)


def joined(documents: Sequence[str]) -> str:
    return "---\n".join(documents)
