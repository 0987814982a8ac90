"""The manifests that `pumice install` prints, in an order in which each object finds what it needs.

Controller and webhook have two replicas each: one controller leads and the other takes over at once; both webhooks
answer. Their pods meet the `restricted` Pod Security level: no root, no privileges, and nothing writable. Without a
volume of their own, `kubectl drain` needs no further flag to move them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.kubernetes.install import names, webhook_configurations
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.engines.kubernetes.install.permissions import ACCOUNTS, Component, rbac_objects
from pumice.model.job import Manifest

REPLICAS: Final = 2
# The unprivileged account of the image.
USER: Final = 65532
_METRICS: Final = {"name": "metrics", "port": names.METRICS_PORT, "targetPort": "metrics"}
_HTTPS: Final = {"name": "https", "port": 443, "targetPort": "https"}


class _Server(Struct, frozen=True):
    """Where a component answers health checks, which ports its Service has, and how much memory it may use."""

    port_name: str
    port: int
    scheme: str
    service_ports: tuple[Manifest, ...]
    memory: str


_SERVERS: Final[Mapping[Component, _Server]] = {
    "controller": _Server("health", names.HEALTH_PORT, "HTTP", (_METRICS,), "512Mi"),
    "webhook": _Server("https", names.WEBHOOK_PORT, "HTTPS", (_HTTPS, _METRICS), "256Mi"),
}


class ComponentOptions(Struct, frozen=True):
    """What an operator may choose for the Deployment of a component."""

    image: str
    replicas: int = REPLICAS
    flags: tuple[str, ...] = ()  # besides those of the manifests
    resources: Mapping[str, Any] = field(default_factory=dict)  # instead of those of the manifests


class InstallOptions(Struct, frozen=True):
    image: str
    namespace: str = names.NAMESPACE
    gang: str = "auto"
    webhook: bool = True
    keep_log_tails: bool = False
    # Addresses of the API server, from which alone the webhook can be reached; empty: no NetworkPolicy.
    api_servers: tuple[str, ...] = ()
    # What an upgrade keeps.
    kept: Mapping[Component, ComponentOptions] = field(default_factory=dict)

    def of(self, component: Component) -> ComponentOptions:
        return self.kept.get(component) or ComponentOptions(self.image)


def manifests(options: InstallOptions) -> Iterator[Manifest]:
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    metadata = {"name": options.namespace, "labels": {**names.labels(), **levels}}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    yield from custom_resources(volcano=options.gang == "volcano")
    yield from rbac_objects(options.namespace, options.gang, webhook=options.webhook, log_tails=options.keep_log_tails)
    metrics = f"--metrics-listen=0.0.0.0:{names.METRICS_PORT}"
    tails = ["--keep-log-tails"] if options.keep_log_tails else []
    listen = f"--listen=0.0.0.0:{names.HEALTH_PORT}"
    yield from _workload("controller", options, [f"--gang={options.gang}", listen, metrics, *tails])
    if options.webhook:
        # Empty; the webhook fills it. Because it exists, the webhook needs no permission to create Secrets.
        metadata = _metadata("webhook", options) | {"name": names.certificates(names.WEBHOOK)}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
        listen = f"--listen=0.0.0.0:{names.WEBHOOK_PORT}"
        service = [f"--namespace={options.namespace}", f"--service={names.WEBHOOK}"]
        yield from _workload("webhook", options, [listen, metrics, *service, f"--gang={options.gang}"])
        yield from webhook_configurations.by_service(options.namespace)
    if options.api_servers:
        yield from _network_policies(options)


def _network_policies(options: InstallOptions) -> Iterator[Manifest]:
    """Who may connect to the pods. A kubelet always may, for its probes: no policy applies to the node of a pod."""
    metrics = {"from": [{"namespaceSelector": {}}], "ports": [{"port": names.METRICS_PORT, "protocol": "TCP"}]}
    reviews = {
        "from": [{"ipBlock": {"cidr": cidr}} for cidr in options.api_servers],
        "ports": [{"port": names.WEBHOOK_PORT, "protocol": "TCP"}],
    }
    components: dict[Component, list[Manifest]] = {"controller": [metrics]}
    if options.webhook:
        components["webhook"] = [reviews, metrics]
    for component, ingress in components.items():
        yield {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": _metadata(component, options),
            "spec": {
                "podSelector": {"matchLabels": names.labels(component)},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        }


def _workload(component: Component, options: InstallOptions, arguments: Sequence[str]) -> Iterator[Manifest]:
    metadata, selector, chosen = _metadata(component, options), names.labels(component), options.of(component)
    service = {"selector": selector, "ports": list(_SERVERS[component].service_ports)}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": chosen.replicas,
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": selector}, "spec": _pod(component, chosen, arguments)},
        },
    }
    budget = {"minAvailable": 1, "selector": {"matchLabels": selector}}
    yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget}


def _metadata(component: Component, options: InstallOptions) -> Manifest:
    return {"name": ACCOUNTS[component], "namespace": options.namespace, "labels": names.labels(component)}


def _pod(component: Component, options: ComponentOptions, arguments: Sequence[str]) -> Manifest:
    server = _SERVERS[component]
    # No CPU limit: throttling would delay work when there is the most of it.
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": server.memory}}
    container = {
        "name": component,
        "image": options.image,
        "args": [component, *arguments, *options.flags],
        "ports": [
            {"name": server.port_name, "containerPort": server.port},
            {"name": "metrics", "containerPort": names.METRICS_PORT},
        ],
        "resources": dict(options.resources) or resources,
        "livenessProbe": _probe(server, "/healthz", period=10, failures=6),
        "readinessProbe": _probe(server, "/readyz", period=5, failures=2),
        "startupProbe": _probe(server, "/healthz", period=2, failures=30),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return {
        "serviceAccountName": ACCOUNTS[component],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": names.labels(component)},
            }
        ],
        "containers": [container],
    }


def _probe(server: _Server, path: str, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": server.port_name, "scheme": server.scheme},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
