"""The webhook configurations: by Service when installed, by address when the webhook runs outside of the cluster.

Installed, a Job that cannot be checked is refused (`Fail`): a cluster relies on it. Outside, it passes (`Ignore`): a
program that somebody tries out must not be able to stop a cluster, and the controller checks every Job itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.labels import labels
from pumice.model.job import Manifest

MUTATE: Final = "/jobs/mutate"
VALIDATE: Final = "/jobs/validate"
# Longer than any review takes, shorter than a client waits.
TIMEOUT_SECONDS: Final = 10
# As unique names of webhooks, so that those of Volcano can stand beside them.
MUTATING_NAME: Final = "mutatejob.pumice.volcano.sh"
VALIDATING_NAME: Final = "validatejob.pumice.volcano.sh"


def installed(namespace: str, service: str = names.WEBHOOK) -> list[Manifest]:
    def at(path: str) -> Manifest:
        return {"service": {"name": service, "namespace": namespace, "path": path, "port": 443}}

    # Neither our own namespace nor the system's may depend on us to come up.
    excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace, "kube-system"]}
    return _both(
        names.CONFIGURATION,
        [(at(MUTATE)), at(VALIDATE)],
        {"failurePolicy": "Fail", "namespaceSelector": {"matchExpressions": [excluded]}},
    )


def outside(address: str, authority: str) -> list[Manifest]:
    """`address` such as https://127.0.0.1:9443; `authority`: the certificate that signed ours, in base64."""

    def at(path: str) -> Manifest:
        return {"url": address + path, "caBundle": authority}

    return _both(names.OUTSIDE_CONFIGURATION, [at(MUTATE), at(VALIDATE)], {"failurePolicy": "Ignore"})


def with_authority(manifest: Manifest, authority: str) -> Manifest:
    """Only the names in a configuration and their authority, to be applied on top of what is there."""
    hooks = [{"name": hook["name"], "clientConfig": {"caBundle": authority}} for hook in manifest["webhooks"]]
    kept = {key: manifest[key] for key in ("apiVersion", "kind")}
    return {**kept, "metadata": {"name": manifest["metadata"]["name"]}, "webhooks": hooks}


def _both(name: str, clients: Sequence[Manifest], common: Manifest) -> list[Manifest]:
    mutating, validating = clients
    return [
        _configuration(
            "Mutating",
            name,
            # Another webhook may add a task after us; then we are asked again, and add only what is missing.
            {"name": MUTATING_NAME, "clientConfig": mutating, **_hook(["CREATE"]), **common}
            | {"reinvocationPolicy": "IfNeeded"},
        ),
        _configuration(
            "Validating",
            name,
            {"name": VALIDATING_NAME, "clientConfig": validating, **_hook(["CREATE", "UPDATE"]), **common},
        ),
    ]


def _configuration(kind: Literal["Mutating", "Validating"], name: str, hook: Manifest) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name, "labels": labels("webhook")},
        "webhooks": [hook],
    }


def _hook(operations: list[str]) -> Manifest:
    return {
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": ["batch.volcano.sh"],
                "apiVersions": ["v1alpha1"],
                "operations": operations,
                "resources": ["jobs"],
                "scope": "Namespaced",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
