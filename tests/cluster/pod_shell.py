"""Commands that reach into the pods of a cluster, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.controllers import MAIN
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

Done = subprocess.CompletedProcess[bytes]


class Shell:
    """Types `pumice` commands in a process of their own."""

    def __init__(self, cluster: Cluster, namespace: str, home: Path, user: str = "admin", server: str = "") -> None:
        self.home = home
        config = str(cluster.kubeconfig(user, server=server, namespace=namespace))
        self.env = {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": str(ROOT / "src"), "KUBECONFIG": config}
        self.env["PUMICE_ON"] = user

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-c", MAIN, *words]

    def popen(self, *words: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.argv(*words), env=self.env, cwd=self.home, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )

    def __call__(self, *words: str, stdin: bytes = b"") -> Done:
        return subprocess.run(
            self.argv(*words),
            env=self.env,
            cwd=self.home,
            input=stdin,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
