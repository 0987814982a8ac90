"""Names and labels of the installed objects, shared by manifests, permissions, the webhook and `--check`."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "pumice-system"
CONTROLLER: Final = "pumice-controller"
WEBHOOK: Final = "pumice-webhook"
# Both webhook configurations are cluster-wide; a webhook outside of the cluster registers under a name of its own.
CONFIGURATION: Final = "pumice"
OUTSIDE_CONFIGURATION: Final = "pumice-outside"
LEASE: Final = "pumice-controller"
LEASE_NAMESPACE: Final = "kube-system"
JOBS_CRD: Final = "jobs.batch.volcano.sh"
COMMANDS_CRD: Final = "commands.bus.volcano.sh"

WEBHOOK_PORT: Final = 9443
# Health checks of the controller; those of the webhook are on WEBHOOK_PORT.
HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8080


def certificates(service: str) -> str:
    """Return the name of the Secret with the certificates of the webhook behind a Service."""
    return f"{service}-certificates"


def labels(component: str = "") -> dict[str, str]:
    """Return the labels of a component, or those that all objects of Pumice have in common."""
    part = {"app.kubernetes.io/component": component} if component else {}
    return {"app.kubernetes.io/name": "pumice", **part}


def selector(component: str = "") -> str:
    """Return those labels as a selector of a list."""
    return ",".join(f"{key}={value}" for key, value in labels(component).items())
