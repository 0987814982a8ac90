"""The Deployments of controller and webhook, with their Services and disruption budgets.

Pods meet the `restricted` level: no root, no privileges, nothing to write to but a small directory in memory. There are
two of each: one controller leads and the other takes over at once; both webhooks answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.labels import labels
from pumice.model.job import Manifest

REPLICAS: Final = 2
# Any id but root's; the image has an account for it.
USER: Final = 65532
_LEVEL: Final = "pod-security.kubernetes.io"


@dataclass(frozen=True, slots=True)
class _Component:
    """What is different between controller and webhook."""

    who: str
    name: str
    arguments: tuple[str, ...]
    port_name: str
    port: int
    service_port: int
    scheme: str
    memory: str


def namespace(name: str) -> Manifest:
    levels = {f"{_LEVEL}/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**labels(), **levels}}}


def controller(namespace: str, image: str, gang: str) -> Iterator[Manifest]:
    component = _Component(
        who="controller",
        name=names.CONTROLLER,
        arguments=(
            "controller",
            f"--gang={gang}",
            f"--lease-namespace={namespace}",
            f"--listen=0.0.0.0:{names.CONTROLLER_PORT}",
        ),
        port_name="metrics",
        port=names.CONTROLLER_PORT,
        service_port=names.CONTROLLER_PORT,
        scheme="HTTP",
        memory="512Mi",
    )
    yield from _manifests(component, namespace, image)


def webhook(namespace: str, image: str, gang: str) -> Iterator[Manifest]:
    component = _Component(
        who="webhook",
        name=names.WEBHOOK,
        arguments=(
            "webhook",
            f"--listen=0.0.0.0:{names.WEBHOOK_PORT}",
            f"--namespace={namespace}",
            f"--service={names.WEBHOOK}",
            f"--gang={gang}",
        ),
        port_name="https",
        port=names.WEBHOOK_PORT,
        service_port=443,
        scheme="HTTPS",
        memory="256Mi",
    )
    # Empty: the webhook fills it. Since it is there, nobody needs the right to create Secrets.
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(component, namespace) | {"name": names.certificates(names.WEBHOOK)},
        "type": "Opaque",
    }
    yield from _manifests(component, namespace, image)


def _manifests(component: _Component, namespace: str, image: str) -> Iterator[Manifest]:
    metadata, chosen = _metadata(component, namespace), labels(component.who)
    port = {"name": component.port_name, "port": component.service_port, "targetPort": component.port_name}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": chosen, "ports": [port]},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": _pod(component, image, chosen)},
        },
    }
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"minAvailable": 1, "selector": {"matchLabels": chosen}},
    }


def _metadata(component: _Component, namespace: str) -> Manifest:
    return {"name": component.name, "namespace": namespace, "labels": labels(component.who)}


def _pod(component: _Component, image: str, chosen: Mapping[str, str]) -> Manifest:
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
                "labelSelector": {"matchLabels": dict(chosen)},
            }
        ],
        "containers": [_container(component, image)],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    }


def _container(component: _Component, image: str) -> Manifest:
    return {
        "name": component.who,
        "image": image,
        "args": list(component.arguments),
        "ports": [{"name": component.port_name, "containerPort": component.port}],
        # No limit of CPU time: it would slow it down when there is much to do.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": component.memory}},
        "livenessProbe": _probe(component, "/healthz", period=10, failures=6),
        "readinessProbe": _probe(component, "/readyz", period=5, failures=2),
        "startupProbe": _probe(component, "/healthz", period=2, failures=30),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the pod, where nobody else is
    }


def _probe(component: _Component, path: str, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": component.port_name, "scheme": component.scheme},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
