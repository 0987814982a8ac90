"""The manifests that `pumice install` prints, in an order in which each object finds what it needs.

Controller and webhook have two replicas each: one controller leads and the other takes over at once; both webhooks
answer. Their pods meet the `restricted` Pod Security level: no root, no privileges, and nothing writable. Without a
volume of their own, `kubectl drain` needs no further flag to move them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.kubernetes.install import names, webhook_configurations
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.engines.kubernetes.install.permissions import Component, rbac_objects
from pumice.model.job import Manifest

REPLICAS: Final = 2
# The unprivileged account of the image.
USER: Final = 65532
_METRICS: Final = {"name": "metrics", "port": names.METRICS_PORT, "targetPort": "metrics"}


class _Component(Struct, frozen=True):
    """The differences between controller and webhook."""

    label: str
    name: str
    arguments: tuple[str, ...]
    port_name: str  # of its health checks
    port: int
    scheme: str
    memory: str


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
    yield from _controller(options)
    if options.webhook:
        yield from _webhook(options.namespace, options.of("webhook"), options.gang)
        yield from webhook_configurations.by_service(options.namespace)
    if options.api_servers:
        yield from _network_policies(options)


def _controller(options: InstallOptions) -> Iterator[Manifest]:
    component = _Component(
        label="controller",
        name=names.CONTROLLER,
        arguments=(
            "controller",
            f"--gang={options.gang}",
            f"--listen=0.0.0.0:{names.HEALTH_PORT}",
            f"--metrics-listen=0.0.0.0:{names.METRICS_PORT}",
            *(("--keep-log-tails",) if options.keep_log_tails else ()),
        ),
        port_name="health",
        port=names.HEALTH_PORT,
        scheme="HTTP",
        memory="512Mi",
    )
    yield from _workload(component, options.namespace, options.of("controller"), [_METRICS])


def _webhook(namespace: str, options: ComponentOptions, gang: str) -> Iterator[Manifest]:
    component = _Component(
        label="webhook",
        name=names.WEBHOOK,
        arguments=(
            "webhook",
            f"--listen=0.0.0.0:{names.WEBHOOK_PORT}",
            f"--metrics-listen=0.0.0.0:{names.METRICS_PORT}",
            f"--namespace={namespace}",
            f"--service={names.WEBHOOK}",
            f"--gang={gang}",
        ),
        port_name="https",
        port=names.WEBHOOK_PORT,
        scheme="HTTPS",
        memory="256Mi",
    )
    # Empty; the webhook fills it. Because it exists, the webhook needs no permission to create Secrets.
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(component, namespace) | {"name": names.certificates(names.WEBHOOK)},
        "type": "Opaque",
    }
    https = {"name": "https", "port": 443, "targetPort": "https"}
    yield from _workload(component, namespace, options, [https, _METRICS])


def _network_policies(options: InstallOptions) -> Iterator[Manifest]:
    """Who may connect to the pods. A kubelet always may, for its probes: no policy applies to the node of a pod."""
    metrics = {"from": [{"namespaceSelector": {}}], "ports": [{"port": names.METRICS_PORT, "protocol": "TCP"}]}
    reviews = {
        "from": [{"ipBlock": {"cidr": cidr}} for cidr in options.api_servers],
        "ports": [{"port": names.WEBHOOK_PORT, "protocol": "TCP"}],
    }
    components = [("controller", names.CONTROLLER, [metrics])]
    if options.webhook:
        components.append(("webhook", names.WEBHOOK, [reviews, metrics]))
    for label, name, ingress in components:
        yield {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": options.namespace, "labels": names.labels(label)},
            "spec": {
                "podSelector": {"matchLabels": names.labels(label)},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        }


def _workload(
    component: _Component, namespace: str, options: ComponentOptions, ports: list[Manifest]
) -> Iterator[Manifest]:
    metadata, selector = _metadata(component, namespace), names.labels(component.label)
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": selector, "ports": ports}}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": selector}, "spec": _pod(component, options, selector)},
        },
    }
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"minAvailable": 1, "selector": {"matchLabels": selector}},
    }


def _metadata(component: _Component, namespace: str) -> Manifest:
    return {"name": component.name, "namespace": namespace, "labels": names.labels(component.label)}


def _pod(component: _Component, options: ComponentOptions, selector: Mapping[str, str]) -> Manifest:
    # No CPU limit: throttling would delay work when there is the most of it.
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": component.memory}}
    container = {
        "name": component.label,
        "image": options.image,
        "args": [*component.arguments, *options.flags],
        "ports": [
            {"name": component.port_name, "containerPort": component.port},
            {"name": "metrics", "containerPort": names.METRICS_PORT},
        ],
        "resources": dict(options.resources) or resources,
        "livenessProbe": _probe(component, "/healthz", period=10, failures=6),
        "readinessProbe": _probe(component, "/readyz", period=5, failures=2),
        "startupProbe": _probe(component, "/healthz", period=2, failures=30),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return {
        "serviceAccountName": component.name,
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
                "labelSelector": {"matchLabels": dict(selector)},
            }
        ],
        "containers": [container],
    }


def _probe(component: _Component, path: str, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": component.port_name, "scheme": component.scheme},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
