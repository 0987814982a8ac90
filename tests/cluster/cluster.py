"""A real Kubernetes control plane on loopback: etcd, API server and, on request, controller manager and scheduler.

All files are in one directory, and all processes end with the tests. The API server is stopped before etcd: without
etcd, its shutdown takes minutes.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.kubernetes_programs import Programs
from tests.cluster.api import Api, eventually
from tests.cluster.pki import Pki, make_pki
from tests.cluster.processes import Daemon, Reaper

GATES = "--feature-gates=GenericWorkload=true"
# Without the node controllers: nodes here renew no lease, and their pods must not be evicted for that.
CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "podgroup-protection-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)
# user -> (token, groups). The plain user has no permissions until a test grants them.
USERS = {
    "admin": ("admin-token", "system:masters"),
    "plain": ("plain-token", ""),
    "system:kube-controller-manager": ("manager-token", ""),
    "system:kube-scheduler": ("scheduler-token", ""),
    "system:node:node": ("node-token", "system:nodes"),
}
_NO_PROXY = urllib.request.ProxyHandler({})


@dataclass(slots=True)
class Cluster:
    programs: Programs
    folder: Path
    pki: Pki
    port: int
    reaper: Reaper
    address: str = "127.0.0.1"  # on which the API server listens
    controllers: Sequence[str] = CONTROLLERS
    api_server_flags: Sequence[str] = ()
    daemons: dict[str, Daemon] = field(default_factory=dict)
    _apis: dict[str, Api] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def etcd(self) -> Daemon:
        return self.daemons["etcd"]

    @property
    def api_server(self) -> Daemon:
        return self.daemons["kube-apiserver"]

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.pki.path("ca.crt"))

    def api(self, token: str = USERS["admin"][0]) -> Api:
        """Return the client of a token, which keeps its connections open until the cluster stops."""
        if token not in self._apis:
            self._apis[token] = Api(self.server, token, self.tls)
        return self._apis[token]

    def kubeconfig(self, user: str = "admin", *, token: str = "", server: str = "", namespace: str = "default") -> Path:
        """Write a kubeconfig for a user, or with another token, or for another server such as a proxy."""
        url = server or self.server
        trust = {} if url.startswith("http:") else {"certificate-authority": self.pki.path("ca.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": url, **trust}}],
            "users": [{"name": user, "user": {"token": token or USERS[user][0]}}],
            "contexts": [{"name": user, "context": {"cluster": "test", "user": user, "namespace": namespace}}],
            "current-context": user,
        }
        # A unique name, because several threads of a test may call this at the same time.
        file = self.folder / f"{user.replace(':', '-')}-{next(self._numbers)}.kubeconfig"
        file.touch(0o600)
        file.write_text(json.dumps(config))
        return file

    def kubectl(self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
        """Run kubectl and return its standard output; fail with its standard error."""
        config = kubeconfig or self.folder / "admin.config"
        command = [str(self.programs.path("kubectl")), f"--kubeconfig={config}", *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    # --- start and stop -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._start_etcd()
        self._start_api_server()
        self.kubeconfig().rename(self.folder / "admin.config")

    def stop(self) -> None:
        for api in self._apis.values():
            api.close()
        for daemon in reversed(list(self.daemons.values())):
            daemon.stop()
        self.reaper.close()

    def restart_api_server(self, *, crash: bool = False) -> None:
        """Restart it with the same data on the same port."""
        (self.api_server.kill if crash else self.api_server.stop)()
        self.api_server.start()
        self.api_server.wait_ready(self._is_ready)

    def start_controllers(self) -> None:
        config = self.kubeconfig("system:kube-controller-manager")
        daemon = self._daemon(
            "kube-controller-manager",
            *_as_user(config),
            f"--secure-port={free_port()}",
            f"--service-account-private-key-file={self.pki.path('sa.key')}",
            f"--root-ca-file={self.pki.path('ca.crt')}",
            "--use-service-account-credentials=true",
            "--allocate-node-cidrs=false",
            "--node-monitor-grace-period=16s",
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",
            f"--controllers={','.join(self.controllers)}",
            GATES,
        )
        daemon.start()
        api = self.api()
        daemon.wait_ready(lambda: api.find("ServiceAccount", "default", "default") is not None)

    def start_scheduler(self) -> None:
        port = free_port()
        config = self.kubeconfig("system:kube-scheduler")
        daemon = self._daemon("kube-scheduler", *_as_user(config), f"--secure-port={port}", GATES)
        daemon.start()
        # It serves a self-signed certificate.
        tls = ssl._create_unverified_context()
        daemon.wait_ready(lambda: _answers(f"https://127.0.0.1:{port}/readyz", tls))

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.daemons["etcd"] = daemon = self._daemon(
            "etcd",
            "--name=t",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=t={peer}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        )
        (self.folder / "etcd.url").write_text(client)
        daemon.start()
        daemon.wait_ready(lambda: _answers(f"{client}/health"))

    def _start_api_server(self) -> None:
        lines = (f'{token},{user},{user},"{groups}"' for user, (token, groups) in USERS.items())
        tokens = self.folder / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text("\n".join(lines) + "\n")
        daemon = self._daemon(
            "kube-apiserver",
            f"--etcd-servers={(self.folder / 'etcd.url').read_text()}",
            f"--bind-address={self.address}",
            f"--secure-port={self.port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder}",
            f"--tls-cert-file={self.pki.path('server.crt')}",
            f"--tls-private-key-file={self.pki.path('server.key')}",
            f"--client-ca-file={self.pki.path('ca.crt')}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.pki.path('sa.pub')}",
            f"--service-account-signing-key-file={self.pki.path('sa.key')}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--allow-privileged=true",
            "--runtime-config=scheduling.k8s.io/v1beta1=true",
            "--kubelet-preferred-address-types=InternalIP",
            GATES,
            "--v=1",
            *self.api_server_flags,
        )
        daemon.start()
        daemon.wait_ready(self._is_ready)

    def _daemon(self, name: str, *arguments: str) -> Daemon:
        daemon = Daemon(name, [str(self.programs.path(name)), *arguments], self.folder / f"{name}.log", self.reaper)
        self.daemons[name] = daemon
        return daemon

    def _is_ready(self) -> bool:
        api = Api(self.server, USERS["admin"][0], self.tls)
        try:
            return api.ask("GET", "/readyz").status == 200
        except OSError:
            return False
        finally:
            api.close()

    # --- namespaces ---------------------------------------------------------------------------------------------------

    def make_namespace(self, name: str) -> None:
        """Create a namespace with its default ServiceAccount, without which pods are rejected."""
        api = self.api()
        api.create("Namespace", "", {"metadata": {"name": name}})
        if "kube-controller-manager" not in self.daemons:
            api.create("ServiceAccount", name, {"metadata": {"name": "default"}})
        eventually("the ServiceAccount exists", lambda: api.find("ServiceAccount", name, "default"))

    def make_node(self, name: str, **allocatable: str) -> None:
        """Create a ready node with these allocatable resources."""
        api = self.api()
        room = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
        api.create("Node", "", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        api.patch(
            "Node", "", name, {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}, "status"
        )
        # Remove the taint of new nodes, as a node controller would.
        api.patch("Node", "", name, {"spec": {"taints": None}})

    def service_account_token(self, namespace: str, name: str) -> str:
        """Request a token of a ServiceAccount, as kubelet does for its pods."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api().call("POST", path, request)["status"]["token"])


def make_cluster(programs: Programs, folder: Path) -> Cluster:
    """Create a cluster that is ready to be started, with certificates that are valid now."""
    pki = make_pki(folder / "pki", dt.datetime.now(dt.UTC))  # noqa: TID251 - an API server uses the real time
    return Cluster(programs, folder, pki, free_port(), Reaper())


@contextmanager
def temporary_cluster(programs: Programs) -> Iterator[Cluster]:
    """Run a cluster in a folder of its own until the end of the block, for a benchmark."""
    folder = Path(tempfile.mkdtemp(prefix="pumice-cluster-"))
    cluster = make_cluster(programs, folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _as_user(config: Path) -> Sequence[str]:
    return (
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--v=1",
    )


def _answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    opener = urllib.request.build_opener(_NO_PROXY, urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
