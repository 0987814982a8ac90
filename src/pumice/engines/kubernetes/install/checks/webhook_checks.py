"""Checks of the webhook: whether it is registered and trusted, and whether it rejects an invalid Job in a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks.check_result import CheckResult, Target, get_or_none, missing, ok

# Invalid by the name of its plugin, which no schema checks.
_INVALID_JOB: Final = {
    "apiVersion": resources.JOBS.api_version,
    "kind": resources.JOBS.kind,
    "metadata": {"generateName": "pumice-check-"},
    "spec": {
        "plugins": {"pumice-check": []},
        "tasks": [{"name": "a", "replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}],
    },
}


async def registered(client: Client, target: Target) -> CheckResult:
    subject = "webhook"
    both = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
    for name in (names.CONFIGURATION, names.OUTSIDE_CONFIGURATION):
        configurations = [one for kind in both if (one := await get_or_none(client, kind, None, name)) is not None]
        if len(configurations) == 1:
            return missing(subject, f"only one of the two configurations {name} exists", target.apply_all)
        if configurations:
            if not all(map(_has_ca_bundle, configurations)):
                hint = f"kubectl -n {target.namespace} logs deployment/{names.WEBHOOK}"
                return missing(subject, f"registered as {name}, but its certificate is not trusted yet", hint)
            policies = {hook.get("failurePolicy") for one in configurations for hook in one["webhooks"]}
            waits = "; failurePolicy is Ignore until it has answered" if policies != {"Fail"} else ""
            return ok(subject, f"registered as {name}{waits if name == names.CONFIGURATION else ''}")
    return missing(subject, "not registered; only the controller checks Jobs", target.apply_all)


async def reachable(client: Client, namespace: str) -> CheckResult:
    subject = "webhook's answer"
    try:
        await client.create(resources.JOBS, namespace, msgspec.json.encode(_INVALID_JOB), dry_run=True)
    except ApiError as error:
        if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            # What the API server answers if it cannot call a webhook; it names the webhook.
            return missing(subject, f"cannot be reached: {error}", "check its pods, its Service and the network")
        if not error.is_invalid:
            raise
        # Others give no causes, and no schema rejects this Job.
        if error.details.get("causes"):
            return ok(subject, f"rejects an invalid Job (dry run in namespace {namespace})")
        return ok(subject, f"another webhook rejects an invalid Job: {error}", "it may report fewer findings")
    return missing(subject, "an invalid Job is accepted", "check its log, and whether its address can be reached")


def _has_ca_bundle(configuration: Mapping[str, Any]) -> bool:
    hooks = configuration.get("webhooks") or []
    return bool(hooks) and all((hook.get("clientConfig") or {}).get("caBundle") for hook in hooks)
