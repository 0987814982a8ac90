"""Types commands of Pumice in the process of the test; the context `admin` is the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pumice.cli.main import main
from tests.cluster.cluster import Cluster


class Result(NamedTuple):
    code: int
    out: str
    err: str


Pumice = Callable[..., Result]
# A file that the tests submit.
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
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
          command: [python, train.py]
          env: [{name: LR, value: "1"}]
"""


def set_user(monkeypatch: pytest.MonkeyPatch, home: Path, kubeconfig: Path) -> None:
    """Give this process the home directory and the kubeconfig of a user without other settings."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PUMICE_ON"):
        monkeypatch.delenv(name, raising=False)


def typing(
    cluster: Cluster,
    namespace: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    server: str = "",
    token: str = "",
) -> Pumice:
    """Return a function that types a command in a folder, which is also the home directory."""
    options = {name: value for name, value in (("server", server), ("token", token)) if value}
    set_user(monkeypatch, folder, cluster.kubeconfig(namespace=namespace, **options))
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CI", raising=False)

    def type_command(*words: str, on: str = "admin") -> Result:
        flags = ["--on", on] if on else []
        before, mark, after = list(words), [], []
        if "--" in words:
            index = words.index("--")
            before, mark, after = list(words[:index]), ["--"], list(words[index + 1 :])
        code = main([*before, *flags, *mark, *after])
        return Result(code, *capsys.readouterr())

    return type_command
