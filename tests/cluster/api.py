"""A simple synchronous client of the API server for tests, independent of the client under test; it does not retry."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.patience import PATIENCE

Object = dict[str, Any]
T = TypeVar("T")

# The group, version and plural of each kind.
KINDS: Mapping[str, tuple[str, str]] = {
    "Job": ("apis/batch.volcano.sh/v1alpha1", "jobs"),
    "Command": ("apis/bus.volcano.sh/v1alpha1", "commands"),
    "PodGroup": ("apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    "NativePodGroup": ("apis/scheduling.k8s.io/v1beta1", "podgroups"),
    "Pod": ("api/v1", "pods"),
    "Service": ("api/v1", "services"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Secret": ("api/v1", "secrets"),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
    "ServiceAccount": ("api/v1", "serviceaccounts"),
    "Event": ("api/v1", "events"),
    "EndpointSlice": ("apis/discovery.k8s.io/v1", "endpointslices"),
    "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("apis/coordination.k8s.io/v1", "leases"),
    "Namespace": ("api/v1", "namespaces"),
    "ResourceQuota": ("api/v1", "resourcequotas"),
    "Node": ("api/v1", "nodes"),
    "LimitRange": ("api/v1", "limitranges"),
    "Queue": ("apis/scheduling.volcano.sh/v1beta1", "queues"),
    "ValidatingWebhookConfiguration": (
        "apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
    ),
}
CLUSTER_WIDE = frozenset({"Namespace", "Node", "Queue", "ValidatingWebhookConfiguration"})


class RefusedError(Exception):
    """The status of the response was not 2xx. `body` is the Status object, if the server sent one."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(f"{status} {body.get('reason', '')}: {body.get('message', '')}")
        self.status = status
        self.body = body


def path_of(kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    group, plural = KINDS[kind]
    inside = f"/namespaces/{namespace}" if namespace and kind not in CLUSTER_WIDE else ""
    return f"/{group}{inside}/{plural}" + "".join(f"/{part}" for part in (name, subresource) if part)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any


class Api:
    """Thread-safe. `server` may be http or https."""

    def __init__(self, server: str, token: str, tls: ssl.SSLContext | None) -> None:
        self.server = server
        self.token = token
        self.tls = tls
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.popleft().close()

    def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        answer = self.ask(method, path, body, content_type)
        if not 200 <= answer.status < 300:
            raise RefusedError(answer.status, answer.body if isinstance(answer.body, dict) else {})
        return answer.body

    def ask(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Answer:
        """Send a request and return the response with any status."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        # The server may have closed an idle connection; a new one shows whether the server is up.
        connection = self._take()
        if connection is not None:
            try:
                return self._exchange(connection, method, path, data, headers)
            except (http.client.HTTPException, OSError):
                connection.close()
        return self._exchange(self._connect(), method, path, data, headers)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> Answer:
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        is_json = response.headers.get_content_type() == "application/json"
        return Answer(response.status, json.loads(text) if is_json and text else text.decode(errors="replace"))

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _connect(self) -> http.client.HTTPConnection:
        url = urllib.parse.urlsplit(self.server)
        if self.tls is None:
            return http.client.HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE)
        return http.client.HTTPSConnection(url.hostname or "", url.port, timeout=PATIENCE, context=self.tls)

    # --- by kind ------------------------------------------------------------------------------------------------------

    def get(self, kind: str, namespace: str, name: str) -> Object:
        found: Object = self.call("GET", path_of(kind, namespace, name))
        return found

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        try:
            return self.get(kind, namespace, name)
        except RefusedError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str, selector: str = "") -> list[Object]:
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        found: list[Object] = self.call("GET", path_of(kind, namespace) + query)["items"]
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def create(self, kind: str, namespace: str, manifest: Object) -> Object:
        made: Object = self.call("POST", path_of(kind, namespace), manifest)
        return made

    def replace(self, kind: str, namespace: str, manifest: Object, subresource: str = "") -> Object:
        path = path_of(kind, namespace, manifest["metadata"]["name"], subresource)
        made: Object = self.call("PUT", path, manifest)
        return made

    def patch(self, kind: str, namespace: str, name: str, patch: Object, subresource: str = "") -> Object:
        path = path_of(kind, namespace, name, subresource)
        made: Object = self.call("PATCH", path, patch, "application/merge-patch+json")
        return made

    def delete(self, kind: str, namespace: str, name: str, options: Object | None = None) -> None:
        self.call("DELETE", path_of(kind, namespace, name), options)


def eventually(what: str, ask: Callable[[], T], within: float = PATIENCE) -> T:
    """Poll until the result is truthy and return it; a failed assertion counts as falsy and is shown on timeout."""
    deadline = time.monotonic() + within
    pause = 0.02
    while True:
        failure: AssertionError | None = None
        try:
            if answer := ask():
                return answer
        except AssertionError as error:
            failure = error
        if time.monotonic() > deadline:
            raise AssertionError(f"after {within:.0f} s still not: {what}\n{failure or ''}") from failure
        time.sleep(pause)
        pause = min(pause * 1.5, 0.3)
