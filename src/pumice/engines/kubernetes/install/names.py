"""What installed things are called. Manifests, permissions, the webhook and `--check` must agree on it."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "pumice-system"
CONTROLLER: Final = "pumice-controller"
WEBHOOK: Final = "pumice-webhook"
# Both webhook configurations, cluster-wide; the one that runs outside of a cluster has names of its own.
CONFIGURATION: Final = "pumice"
OUTSIDE_CONFIGURATION: Final = "pumice-outside"
LEASE: Final = "pumice-controller"
JOBS_CRD: Final = "jobs.batch.volcano.sh"
COMMANDS_CRD: Final = "commands.bus.volcano.sh"

WEBHOOK_PORT: Final = 9443
# Metrics and health of the controller; the webhook has its health beside its reviews.
CONTROLLER_PORT: Final = 8080

GANGS: Final = ("auto", "volcano", "native", "coscheduling", "none")


def certificates(service: str) -> str:
    """The Secret with the certificates of the webhook behind a Service."""
    return f"{service}-certificates"
