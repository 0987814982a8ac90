"""What stands around a staged Job, in the formats of its writers: PodGroups, Queues, nodes, claims, a webhook."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.api import Api, Object, RefusedError
from tests.cluster.cluster import Cluster
from tests.cluster.pod_status import timestamp
from tests.cluster.staged_jobs import StagedJob

GPU = "example.com/gpu"
SIGNATURE = "image busybox is not signed"


@dataclass(slots=True)
class Setup:
    """`close` removes what has no namespace."""

    cluster: Cluster
    namespace: str
    _made: list[tuple[str, str]] = field(default_factory=list)

    @property
    def api(self) -> Api:
        return self.cluster.api()

    def close(self) -> None:
        for kind, name in self._made:
            self.api.delete(kind, "", name)

    def job(self, replicas: int = 2, *, pod_spec: Object | None = None, **spec: object) -> StagedJob:
        return StagedJob(self.api, self.namespace, "train", replicas, spec, pod_spec or {})

    def node(self, name: str, *taints: Object, labels: Object | None = None, gpus: str = "") -> None:
        self.cluster.make_node(name, **({GPU: gpus} if gpus else {}))
        self._made.append(("Node", name))
        self.api.patch("Node", "", name, {"spec": {"taints": list(taints) or None}, "metadata": {"labels": labels}})

    def lose_node(self, name: str) -> None:
        """Write what the controller of nodes writes when a kubelet is silent."""
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": timestamp()}
        lost["message"] = "Kubelet stopped posting node status."
        self.api.patch("Node", "", name, {"status": {"conditions": [lost]}}, "status")

    def queue(self, name: str, *, state: str = "Open", allocated: Object | None = None, **spec: object) -> None:
        manifest = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        self.api.create("Queue", "", {**manifest, "spec": {"weight": 1, **spec}})
        self._made.append(("Queue", name))
        self.api.patch("Queue", "", name, {"status": {"state": state, "allocated": allocated or {}}}, "status")

    def pod_group(self, job: StagedJob, phase: str, *conditions: Object, **spec: object) -> Object:
        """Create the PodGroup of a Job, as Volcano's controller does, with what its scheduler says of it."""
        name = f"{job.name}-{job.uid}"
        metadata = {"name": name, "ownerReferences": [job.owner]}
        manifest = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata}
        group = {"minMember": job.replicas, "queue": job.manifest["spec"].get("queue", "default"), **spec}
        self.api.create("PodGroup", self.namespace, {**manifest, "spec": group})
        about = {"phase": phase, "conditions": list(conditions)}
        found = self.api.patch("PodGroup", self.namespace, name, {"status": about})  # it has no status subresource
        return {"kind": "PodGroup", **found}

    def claim(self, name: str, storage: str = "fast") -> Object:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        manifest = {"metadata": {"name": name}, "spec": {**spec, "storageClassName": storage}}
        return {"kind": "PersistentVolumeClaim", **self.api.create("PersistentVolumeClaim", self.namespace, manifest)}

    def refused_pod(self, job: StagedJob) -> None:
        """Ask the API server for a pod, and write its refusal as Volcano's controller does."""
        try:
            job.create_pod(0)
        except RefusedError as error:
            job.event("FailedCreate", f"Error creating pods: [{error.body['message']}]")
        else:
            raise AssertionError("the API server has accepted the pod")

    def label(self, **labels: str) -> None:
        self.api.patch("Namespace", "", self.namespace, {"metadata": {"labels": labels}})

    def webhook(self, url: str, resource: str = "pods") -> None:
        """Register a webhook for what is created in this namespace."""
        name = f"{resource}-{self.namespace}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        authority = (self.cluster.pki.folder / "ca.crt").read_bytes()
        hook = {
            "name": "images.example.com",
            "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
        }
        self.api.create("ValidatingWebhookConfiguration", "", {"metadata": {"name": name}, "webhooks": [hook]})
        self._made.append(("ValidatingWebhookConfiguration", name))


def unschedulable(message: str, reason: str = "NotEnoughResources") -> Object:
    """Return the condition of a PodGroup as Volcano's scheduler writes it."""
    condition = {"type": "Unschedulable", "status": "True", "reason": reason, "message": message}
    return {**condition, "lastTransitionTime": timestamp(), "transitionID": "4e6e8a3c"}


@contextmanager
def refusing_webhook(cluster: Cluster) -> Iterator[str]:
    """Serve a webhook that refuses everything; yield its URL."""

    class Refuse(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": SIGNATURE}}
            content = json.dumps({**review, "request": None, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
            """Print nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cluster.pki.path("server.crt"), cluster.pki.path("server.key"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
