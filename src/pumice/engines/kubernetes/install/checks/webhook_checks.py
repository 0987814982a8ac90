"""Whether the webhook is registered, trusted, and really asked: by a Job that it must refuse, tried without effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks.check_result import APPLY_ALL, Check, found, good, lacking
from pumice.engines.kubernetes.install.webhook_configurations import MUTATING_NAME, VALIDATING_NAME

SUBJECT: Final = "webhook"
_BOTH: Final = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
# No plugin has such a name, and no schema knows the names of plugins.
_BAD_JOB: Final = {
    "apiVersion": resources.JOBS.api_version,
    "kind": resources.JOBS.kind,
    "metadata": {"generateName": "pumice-check-"},
    "spec": {
        "plugins": {"pumice-check": []},
        "tasks": [{"name": "a", "replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}],
    },
}


async def registered(client: Client) -> Check:
    for name in (names.CONFIGURATION, names.OUTSIDE_CONFIGURATION):
        both = [await found(client, resource, None, name) for resource in _BOTH]
        there = [configuration for configuration in both if configuration is not None]
        if len(there) == 1:
            return lacking(SUBJECT, f"only one of the two configurations {name} is there", APPLY_ALL)
        if there:
            if not all(_has_authority(one) for one in there):
                todo = f"kubectl -n {names.NAMESPACE} logs deployment/{names.WEBHOOK}"
                return lacking(SUBJECT, f"registered as {name}, but its certificate is not trusted yet", todo)
            return good(SUBJECT, f"registered as {name}")
    return lacking(SUBJECT, "not registered; only the controller checks Jobs", APPLY_ALL)


async def reachable(client: Client, namespace: str) -> Check:
    subject = "webhook's answer"
    try:
        await client.create(resources.JOBS, namespace, msgspec.json.encode(_BAD_JOB), dry_run=True)
    except ApiError as error:
        if MUTATING_NAME in error.message or VALIDATING_NAME in error.message:
            if error.is_invalid:
                return good(subject, f"refuses a bad Job (tried in namespace {namespace})")
            return lacking(
                subject, f"cannot be asked: {error}", "look at its pods, its Service and the network between"
            )
        if error.is_invalid:
            return good(subject, f"another webhook refuses a bad Job: {error}", "its findings may be fewer")
        raise
    return lacking(subject, "a bad Job is accepted", "look at its log, and whether its address can be reached")


def _has_authority(configuration: Mapping[str, Any]) -> bool:
    hooks = configuration.get("webhooks") or []
    return bool(hooks) and all((hook.get("clientConfig") or {}).get("caBundle") for hook in hooks)
