"""`pumice controller` outside the cluster, started as the guide shows: with leader election, for all namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.cluster.api import eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import page, start_pumice
from tests.cluster.processes import Daemon


@dataclass(slots=True)
class OutsideController:
    cluster: Cluster
    folder: Path
    daemon: Daemon | None = None

    def start(self) -> None:
        log = self.folder / "controller.log"
        flags = (f"--kubeconfig={self.cluster.kubeconfig()}", "--gang=native", "--listen=127.0.0.1:8081")
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
        return "pumice_leader 1.0" in page(self.daemon, "/metrics")

    def wait_until_it_leads(self) -> None:
        eventually("the controller outside leads", lambda: self.leads)
