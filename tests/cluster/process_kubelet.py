"""Runs the pods of Pumice's Deployments as real `pumice` processes, and routes the calls to their Services.

A process has the arguments of its pod and the token of its ServiceAccount; only the port is another one, since all pods
share this machine. An image that nobody has pushed cannot be pulled. The API server reaches Services through an HTTP
CONNECT proxy (its egress selector), which stands for kube-proxy.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import ssl
import tempfile
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.cluster.api import Api, Object, RefusedError, path_of
from tests.cluster.cluster import Cluster, free_port
from tests.cluster.controllers import start_pumice
from tests.cluster.processes import Daemon

NODE = "this-machine"
_BUFFER = 65536


class EgressProxy:
    """An HTTP CONNECT proxy on a Unix socket to the processes of a kubelet."""

    def __init__(self) -> None:
        # Not in the directory of the test: the path of a socket must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="pumice-"))
        self.kubelet: ProcessKubelet | None = None
        handler = _handler_of(self)
        self._server = socketserver.ThreadingUnixStreamServer(str(self.folder / "socket"), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def api_server_flags(self) -> list[str]:
        transport = {"uds": {"udsName": str(self.folder / "socket")}}
        selection = {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
        config = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [selection],
        }
        file = self.folder / "egress.json"
        file.write_text(json.dumps(config))
        return [f"--egress-selector-config-file={file}"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self.folder)


def _handler_of(proxy: EgressProxy) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            host = self.rfile.readline().split()[1].decode().rpartition(":")[0]
            while self.rfile.readline().strip():
                pass
            port = proxy.kubelet.port_behind(host) if proxy.kubelet is not None else 0
            if not port:
                self.wfile.write(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", port)) as upstream:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_copy, args=(upstream, self.connection), daemon=True)
                back.start()
                _copy(self.connection, upstream)
                back.join()

    return Handler


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(_BUFFER):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # The other direction has closed both sockets.
        return


@dataclass(slots=True)
class _Pod:
    """A pod that this kubelet has taken over, with its process once the image was pulled."""

    manifest: Object
    port: int
    process: Daemon | None = None
    reported: Object = field(default_factory=dict)
    is_ending: bool = False


class ProcessKubelet:
    def __init__(self, cluster: Cluster, folder: Path, registry: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._registry = registry
        self._pods: dict[str, _Pod] = {}
        self._started = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None
        self.logs: list[Path] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for pod in self._pods.values():
            if pod.process is not None:
                pod.process.kill()
        assert self._failure is None, self._failure
        broken = [log.read_text() for log in self.logs if "Traceback" in log.read_text()]
        assert not broken, "\n".join(broken)

    def port_behind(self, address: str) -> int:
        """Return the port of a ready process behind the address of a Service; 0 if there is none."""
        services = self._api.call("GET", path_of("Service"))["items"]
        for service in services:
            if service["spec"].get("clusterIP") == address:
                selector = service["spec"].get("selector") or {}
                ready = [pod for pod in list(self._pods.values()) if _is_ready(pod) and _selects(selector, pod)]
                return ready[-1].port if ready else 0
        return 0

    @property
    def _api(self) -> Api:
        return self.cluster.api()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.1):
                self._sync()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._failure = error

    def _sync(self) -> None:
        listed = self._api.list("Pod", "", "app.kubernetes.io/name=pumice")
        present = {pod["metadata"]["uid"]: pod for pod in listed}
        for uid, manifest in present.items():
            pod = self._pods.setdefault(uid, _Pod(manifest, free_port()))
            if manifest["metadata"].get("deletionTimestamp"):
                self._end(pod)
            elif not manifest["spec"].get("nodeName"):
                self._bind(manifest)
            else:
                self._keep_running(pod)
        for uid in [uid for uid in self._pods if uid not in present]:
            gone = self._pods.pop(uid)
            if gone.process is not None:
                gone.process.kill()

    def _bind(self, manifest: Object) -> None:
        meta = manifest["metadata"]
        binding = {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": NODE}}
        self._unless_gone("POST", path_of("Pod", meta["namespace"], meta["name"], "binding"), binding)

    def _keep_running(self, pod: _Pod) -> None:
        [container] = pod.manifest["spec"]["containers"]
        image = container["image"]
        if pod.process is None and image in self._registry.read_text().split():
            pod.process = self._start(pod, container["args"])
        state: Object = {"waiting": {"reason": "ErrImagePull", "message": f'failed to pull image "{image}": not found'}}
        is_ready = False
        if pod.process is not None:
            state = {"running": {}} if pod.process.alive else {"waiting": {"reason": "CrashLoopBackOff"}}
            is_ready = pod.process.alive and _answers(container, pod.port)
        self._report(pod, container["name"], state, is_ready=is_ready)

    def _start(self, pod: _Pod, arguments: list[str]) -> Daemon | None:
        meta = pod.manifest["metadata"]
        account = pod.manifest["spec"]["serviceAccountName"]
        try:
            token = self.cluster.service_account_token(meta["namespace"], account)
        except RefusedError as error:
            if error.status not in (403, 404):
                raise
            return None  # its namespace is being deleted
        command, *flags = arguments
        # Of several values of a flag the last one counts.
        flags += [f"--kubeconfig={self.cluster.kubeconfig(account, token=token)}", f"--listen=127.0.0.1:{pod.port}"]
        flags += [f"--metrics-listen=127.0.0.1:{free_port()}"]
        log = self._folder / f"{meta['name']}.log"
        self.logs.append(log)
        return start_pumice(self.cluster, log, command, *flags, quickly=True)

    def _report(self, pod: _Pod, container: str, state: Object, *, is_ready: bool) -> None:
        ready = {"type": "Ready", "status": "True" if is_ready else "False"}
        status = {
            "phase": "Running" if "running" in state else "Pending",
            "conditions": [{"type": "PodScheduled", "status": "True"}, ready],
            "containerStatuses": [
                {"name": container, "ready": is_ready, "state": state, "restartCount": 0, "image": "a", "imageID": "a"}
            ],
        }
        if status == pod.reported:
            return
        meta = pod.manifest["metadata"]
        path = path_of("Pod", meta["namespace"], meta["name"], "status")
        self._unless_gone("PATCH", path, {"status": status}, "application/merge-patch+json")
        pod.reported = status

    def _end(self, pod: _Pod) -> None:
        if pod.process is not None and pod.process.alive:
            if not pod.is_ending:
                pod.is_ending = True
                with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(pod.process.pid, signal.SIGTERM)
            return
        meta = pod.manifest["metadata"]
        self._unless_gone("DELETE", path_of("Pod", meta["namespace"], meta["name"]), {"gracePeriodSeconds": 0})

    def _unless_gone(self, method: str, path: str, body: object, content: str = "application/json") -> None:
        answer = self._api.ask(method, path, body, content)
        # 403: in a namespace that is being deleted, nothing can be created, bindings included.
        if answer.status not in (200, 201, 403, 404, 409):
            raise RefusedError(answer.status, answer.body)


def _is_ready(pod: _Pod) -> bool:
    conditions = pod.reported.get("conditions") or []
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def _selects(selector: Mapping[str, str], pod: _Pod) -> bool:
    labels = pod.manifest["metadata"]["labels"]
    return all(labels.get(key) == value for key, value in selector.items())


def _answers(container: Object, port: int) -> bool:
    """Probe a container as its manifest says; a probe does not verify certificates."""
    probe = container["readinessProbe"]["httpGet"]
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))
    try:
        url = f"{probe['scheme'].lower()}://127.0.0.1:{port}{probe['path']}"
        with urllib.request.build_opener(*handlers).open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
