"""Starts `pumice controller` processes, with exactly the permissions that `pumice install` grants."""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.manifests import InstallOptions, manifests
from pumice.engines.kubernetes.install.permissions import GRANTS, rule
from tests.cluster.api import Object, eventually, path_of
from tests.cluster.cluster import Cluster
from tests.cluster.jobs import until_phase
from tests.cluster.processes import Daemon
from tests.fork_server import Forked, fork_server
from tests.meta.tree import ROOT

MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"
ENVIRON = {"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONPATH": str(ROOT / "src")}
PERMISSIONS = frozenset({"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


def installed(gang: str = "auto", *, webhook: bool = True) -> Iterator[Object]:
    """Return what `pumice install` prints, without the workloads, which would need nodes."""
    for manifest in manifests(InstallOptions(image="pumice", gang=gang, webhook=webhook)):
        if manifest["kind"] in PERMISSIONS:
            yield manifest
    # With Volcano's definitions, so that tests can use each gang provider.
    for manifest in manifests(InstallOptions(image="pumice", gang="volcano", webhook=webhook)):
        if manifest["kind"] == "CustomResourceDefinition":
            yield manifest


def install(cluster: Cluster, gang: str = "auto") -> None:
    documents = [msgspec.json.encode(manifest).decode() for manifest in installed(gang)]
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(documents))
    api = cluster.api()
    kinds = ("Job", "Command", "PodGroup")
    eventually("the definitions are served", lambda: all(api.ask("GET", path_of(kind)).status == 200 for kind in kinds))


def grant_lease(cluster: Cluster, namespace: str) -> str:
    """Grant the controller the Lease of a namespace, as the guide to permissions says; return the RoleBinding."""
    name = f"{names.LEASE}-{namespace}"
    create = ("-n", names.LEASE_NAMESPACE, "create")
    lease = ("--resource=leases.coordination.k8s.io", f"--resource-name={name}")
    cluster.kubectl(*create, "role", name, "--verb=get,update", *lease)
    account = f"--serviceaccount={names.NAMESPACE}:{names.CONTROLLER}"
    cluster.kubectl(*create, "rolebinding", name, f"--role={name}", account)
    return name


def grant_logs(cluster: Cluster, namespace: str) -> None:
    """Grant the controller in a namespace what `pumice install --keep-log-tails` grants it everywhere."""
    rules = [rule(grant) for grant in GRANTS if grant.log_tails]
    metadata = {"name": "log-tails", "namespace": namespace}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    cluster.kubectl("create", "-f", "-", stdin=msgspec.json.encode(role).decode())
    account = f"--serviceaccount={names.NAMESPACE}:{names.CONTROLLER}"
    cluster.kubectl("-n", namespace, "create", "rolebinding", "log-tails", "--role=log-tails", account)


@dataclass(slots=True)
class Controllers:
    """Starts controllers and stops them after the test."""

    cluster: Cluster
    folder: Path
    started: list[Daemon] = field(default_factory=list)

    def start(
        self,
        namespace: str,
        *flags: str,
        server: str = "",
        gang: str = "none",
        quickly: bool = True,
        elect: bool = False,
    ) -> Daemon:
        """Start one for a namespace, or for all if it is empty; `server` may be a proxy."""
        token = self.cluster.service_account_token(names.NAMESPACE, names.CONTROLLER)
        config = self.cluster.kubeconfig(names.CONTROLLER, token=token, server=server)
        arguments = [f"--kubeconfig={config}", f"--gang={gang}"]
        if namespace:
            arguments.append(f"--namespace={namespace}")
        if not elect:
            arguments.append("--no-leader-elect")
        log = self.folder / f"controller-{len(self.started)}.log"
        daemon = start_pumice(self.cluster, log, "controller", *arguments, *flags, quickly=quickly)
        self.started.append(daemon)
        return daemon

    def run_job(self, namespace: str, job: Object) -> Object:
        """Start a controller, create a Job and wait until it runs; return it as created."""
        self.start(namespace)
        created = self.cluster.api().create("Job", namespace, job)
        until_phase(self.cluster.api(), namespace, "Running", job["metadata"]["name"])
        return created

    def stop(self) -> None:
        for daemon in self.started:
            daemon.stop()
            del self.cluster.daemons[daemon.name]
        broken = [daemon.tail() for daemon in self.started if "Traceback" in daemon.log.read_text()]
        assert not broken, "\n".join(broken)


def start_pumice(cluster: Cluster, log: Path, command: str, *flags: str, quickly: bool = True) -> Daemon:
    """Start a command from this source tree, without the environment of the tests; `quickly` by the fork server."""
    program = [] if quickly else [sys.executable, "-c", MAIN]
    kind = ForkedDaemon if quickly else Daemon
    daemon = kind(log.stem, [*program, command, "--log-format=text", *flags], log, cluster.reaper, ENVIRON)
    cluster.daemons[daemon.name] = daemon
    daemon.start()
    return daemon


@dataclass(slots=True)
class ForkedDaemon(Daemon):
    def start(self) -> None:
        self.process = fork_pumice(self.argv, self.log)
        self.reaper.watch(self.process.pid)


def fork_pumice(argv: Sequence[str], log: Path) -> Forked:
    engine = "pumice.engines.kubernetes"
    server = fork_server(
        "pumice.cli.cluster.controller",
        "pumice.cli.cluster.webhook",
        f"{engine}.controller.process",
        f"{engine}.webhook.webhook_process",
        "uvloop",
    )
    with log.open("ab") as out:
        return server.start(argv, cwd=log.parent, env=ENVIRON, out=out.fileno())


def page(controller: Daemon, path: str) -> str:
    """Return /metrics or another page of a controller, once its log has the address."""
    urls = eventually("it listens", lambda: re.findall(r"127\.0\.0\.1:\d+", controller.log.read_text()))
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{urls[0]}{path}") as answer:
        text: str = answer.read().decode()
    return text


def apply(cluster: Cluster, namespace: str, file: Path) -> Object:
    """Apply a Job with kubectl and return it as the server stored it."""
    name = cluster.kubectl("apply", "-n", namespace, "-f", str(file), "-o", "name").strip()
    return cluster.api().get("Job", namespace, name.rpartition("/")[2])


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    found = cluster.api().find("Job", namespace, name)
    return "" if found is None else str(found.get("status", {}).get("state", {}).get("phase", ""))
