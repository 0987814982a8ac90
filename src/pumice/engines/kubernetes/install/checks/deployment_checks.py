"""Checks of the Deployments: whether the roll-out is complete and, if not, why a pod does not start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks.check_result import APPLY, CheckResult, missing, ok
from pumice.engines.kubernetes.install.installation import containers
from pumice.engines.kubernetes.install.permissions import Component
from pumice.model.snapshot import BACK_OFF, IMAGE_REASONS

_MOST_CHARACTERS: Final = 300


async def rollout(client: Client, component: Component, deployment: Mapping[str, Any]) -> CheckResult:
    """Check that all pods of a Deployment are those of its template, and ready."""
    subject = f"{component} pods"
    meta, status = deployment["metadata"], deployment.get("status") or {}
    where, wanted = f"-n {meta['namespace']}", (deployment.get("spec") or {}).get("replicas", 1)
    ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
    image = ", ".join(str(one.get("image")) for one in containers(deployment))
    if wanted == 0:
        hint = f"kubectl {where} scale deployment/{meta['name']} --replicas=2"
        return missing(subject, f"Deployment {meta['namespace']}/{meta['name']} is scaled to 0", hint)
    is_seen = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    if is_seen and status.get("replicas", 0) == updated == wanted <= ready:
        return ok(subject, f"{ready} of {wanted} ready, image {image}")
    old = status.get("replicas", 0) - updated if is_seen else 0
    found = f"{updated if is_seen else 0} of {wanted} updated, {ready} ready{f', {old} old' * (old > 0)}, image {image}"
    async for items, _ in client.list_pages(
        resources.PODS, meta["namespace"], label_selector=names.selector(component)
    ):
        for pod in map(msgspec.json.decode, items):
            for reason, message in waiting(pod):
                name = pod["metadata"]["name"]
                return missing(subject, f"{found}; {name} waits: {reason}{message}", _hint(reason, where, name))
    for condition in status.get("conditions") or []:
        if (condition.get("type"), condition.get("status")) in {("ReplicaFailure", "True"), ("Progressing", "False")}:
            reason, message = str(condition.get("reason")), _text(condition.get("message"))
            return missing(
                subject, f"{found}; {reason}{message}", f"kubectl {where} describe deployment {meta['name']}"
            )
    return missing(subject, found, f"kubectl {where} rollout status deployment/{meta['name']}")


def waiting(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return reason and message of what a pod waits for; the message starts with a colon, or is empty."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        found = (container.get("state") or {}).get("waiting") or {}
        if found.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            yield str(found["reason"]), _text(found.get("message"))
    for condition in status.get("conditions") or []:
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            yield str(condition.get("reason")), _text(condition.get("message"))


def _hint(reason: str, where: str, pod: str) -> str:
    if reason in IMAGE_REASONS:
        # The one hint that changes what the operator chose, since that does not work.
        return f"push that image, or choose another: pumice install --upgrade --image NAME | {APPLY}"
    if reason == BACK_OFF:
        return f"kubectl {where} logs {pod} --previous"
    return f"kubectl {where} describe pod {pod}"


def _text(message: object) -> str:
    text = " ".join(str(message or "").split())
    return f": {text[:_MOST_CHARACTERS]}" if text else ""
