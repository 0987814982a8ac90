"""`pumice controller` outside the cluster, started as the guide shows: with leader election, for all namespaces."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.api import eventually, path_of
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import page, start_pumice
from tests.cluster.processes import Daemon

PUMICE = str(Path(sys.executable).with_name("pumice"))


def pumice(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the administrator of the cluster."""
    environ = {"KUBECONFIG": str(cluster.folder / "admin.config"), "PATH": "/usr/bin:/bin"}
    return subprocess.run([PUMICE, *arguments], env=environ, capture_output=True, text=True, check=False)


def install_definitions(cluster: Cluster) -> None:
    """Install no more than a controller outside the cluster needs: not even the namespace of Pumice."""
    printed = pumice(cluster, "install", "--crds-only")
    assert printed.returncode == 0, printed.stderr
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=printed.stdout)
    api = cluster.api()
    for kind in ("Job", "Command"):
        path = path_of(kind)
        eventually(f"{kind} is served", lambda path=path: api.ask("GET", path).status == 200)  # type: ignore[misc]  # mypy has no type for such a default


@dataclass(slots=True)
class OutsideController:
    cluster: Cluster
    folder: Path
    daemon: Daemon | None = None
    flags: tuple[str, ...] = ()

    def start(self) -> None:
        log = self.folder / "controller.log"
        flags = (f"--kubeconfig={self.cluster.kubeconfig()}", "--gang=native", "--listen=127.0.0.1:8081", *self.flags)
        self.daemon = start_pumice(self.cluster, log, "controller", *flags)

    def stop(self) -> None:
        """Stop it, which releases its Lease."""
        if self.daemon is not None:
            self.daemon.stop()
            assert "Traceback" not in self.daemon.log.read_text(), self.daemon.tail(40)
            self.daemon = None

    @property
    def leads(self) -> bool:
        assert self.daemon is not None
        try:
            return "pumice_leader 1.0" in page(self.daemon, "/metrics")
        except OSError:  # it starts
            return False

    def wait_until_it_leads(self) -> None:
        eventually("the controller outside leads", lambda: self.leads)
