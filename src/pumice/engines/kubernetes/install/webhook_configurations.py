"""The webhook configurations: by Service for an installed webhook, by URL for one outside of the cluster.

Both have `failurePolicy: Ignore`, so that a webhook that does not start cannot block a cluster; the controller checks
every Job itself in any case. An installed webhook sets `Fail` once the API server has called it through its Service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pumice.engines.kubernetes.install import names
from pumice.model.job import Manifest

MUTATE: Final = "/jobs/mutate"
VALIDATE: Final = "/jobs/validate"
# Longer than any review takes, shorter than the timeout of clients.
TIMEOUT_SECONDS: Final = 10
# Unlike the names of Volcano's webhooks, so that both can be registered.
MUTATING_NAME: Final = "mutatejob.pumice.volcano.sh"
VALIDATING_NAME: Final = "validatejob.pumice.volcano.sh"


def by_service(namespace: str, service: str = names.WEBHOOK) -> list[Manifest]:
    def at(path: str) -> Manifest:
        return {"service": {"name": service, "namespace": namespace, "path": path, "port": 443}}

    # Pods in these two namespaces must be able to start while the webhook is down.
    excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace, "kube-system"]}
    return _both(
        names.CONFIGURATION,
        [at(MUTATE), at(VALIDATE)],
        {"failurePolicy": "Ignore", "namespaceSelector": {"matchExpressions": [excluded]}},
    )


def by_url(url: str, ca_bundle: str) -> list[Manifest]:
    """Return the configurations for a webhook at a URL such as https://127.0.0.1:9443; `ca_bundle` is in base64."""

    def at(path: str) -> Manifest:
        return {"url": url + path, "caBundle": ca_bundle}

    return _both(names.OUTSIDE_CONFIGURATION, [at(MUTATE), at(VALIDATE)], {"failurePolicy": "Ignore"})


def ca_bundle_patch(manifest: Manifest, ca_bundle: str) -> Manifest:
    """Return the part of a configuration that sets the CA bundle, for server-side apply on the installed one."""
    hooks = [{"name": hook["name"], "clientConfig": {"caBundle": ca_bundle}} for hook in manifest["webhooks"]]
    identity = {key: manifest[key] for key in ("apiVersion", "kind")}
    return {**identity, "metadata": {"name": manifest["metadata"]["name"]}, "webhooks": hooks}


def _both(name: str, clients: Sequence[Manifest], common: Manifest) -> list[Manifest]:
    hooks: tuple[tuple[str, str, list[str], Manifest], ...] = (
        # Another webhook may add a task later; then the API server calls this one again.
        ("Mutating", MUTATING_NAME, ["CREATE"], {"reinvocationPolicy": "IfNeeded"}),
        ("Validating", VALIDATING_NAME, ["CREATE", "UPDATE"], {}),
    )
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name, "labels": names.labels("webhook")},
            "webhooks": [
                {
                    "name": hook,
                    "clientConfig": client,
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
                    **common,
                    **more,
                }
            ],
        }
        for (kind, hook, operations, more), client in zip(hooks, clients, strict=True)
    ]
