"""Checks of permissions: those of the current user, and those that the installed roles grant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from pumice.engines.kubernetes.api.client import Client, is_allowed
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.install.checks.check_result import CheckResult, Target, get_or_none, missing, ok
from pumice.engines.kubernetes.install.permissions import ACCOUNTS, Grant

CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
# There are about seventy permissions to ask for.
_PARALLEL_REQUESTS: Final = 16
_MOST_SHOWN: Final = 8


class _Permission(Struct, frozen=True):
    group: str
    resource: str
    verb: str
    name: str
    namespace: str

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" {self.name}" if self.name else "")


async def own_permissions(client: Client, grants: Iterable[Grant], namespace: str) -> CheckResult:
    """Check whether the user of this kubeconfig could run the controller and the webhook."""
    required = required_permissions(grants, namespace)
    slots = asyncio.Semaphore(_PARALLEL_REQUESTS)

    async def may(permission: _Permission) -> bool:
        resource, _, subresource = permission.resource.partition("/")
        attributes = {
            "group": permission.group,
            "resource": resource,
            "subresource": subresource,
            "verb": permission.verb,
            "name": permission.name,
            "namespace": permission.namespace,
        }
        async with slots:
            return await is_allowed(client, attributes)

    answers = await asyncio.gather(*map(may, required))
    denied = [str(permission) for permission, allowed in zip(required, answers, strict=True) if not allowed]
    if denied:
        hint = "only needed to run pumice controller and pumice webhook as this user; docs/guides/permissions.md"
        return missing(f"may not {_shortened(denied)}", hint)
    return ok(f"all {len(required)} that controller and webhook need")


async def installed_roles(client: Client, grants: Iterable[Grant], target: Target) -> CheckResult:
    """Check whether the installed roles grant what this version needs."""
    expected, lost = list(grants), []
    for component, account in ACCOUNTS.items():
        role = await get_or_none(client, CLUSTER_ROLES, None, account)
        if role is None and component == "controller":
            return ok("none", "only needed for a controller or webhook inside the cluster")
        if role is not None:
            own = [grant for grant in expected if grant.component == component]
            texts = _not_granted(role, [grant for grant in own if grant.is_cluster_wide])
            namespaced: dict[str, list[Grant]] = {}
            for grant in own:
                if namespace := target.namespace if grant.own_namespace else grant.namespace:
                    namespaced.setdefault(namespace, []).append(grant)
            for namespace, wanted in namespaced.items():
                role = await get_or_none(client, ROLES, namespace, account) or {}
                texts += [f"{text} in {namespace}" for text in _not_granted(role, wanted)]
            if texts:
                lost.append(f"{account}: {_shortened(texts)}")
    if lost:
        return missing(f"do not grant {'; '.join(lost)}", target.apply_all)
    return ok("grant what this version needs")


def required_permissions(grants: Iterable[Grant], namespace: str) -> list[_Permission]:
    """Return what the grants permit, without duplicates."""
    permissions = (
        _Permission(grant.group, resource, verb, name, namespace if grant.own_namespace else grant.namespace)
        for grant in grants
        for resource in grant.resources
        for verb in grant.verbs
        for name in grant.resource_names or ("",)
    )
    return list(dict.fromkeys(permissions))


def _not_granted(role: Mapping[str, Any], grants: Iterable[Grant]) -> list[str]:
    present = {
        (group, resource, verb, name)
        for rule in role.get("rules") or []
        for group in rule.get("apiGroups") or []
        for resource in rule.get("resources") or []
        for verb in rule.get("verbs") or []
        for name in rule.get("resourceNames") or [""]
    }
    return [
        str(one)
        for one in required_permissions(grants, "")
        if not {(one.group, one.resource, one.verb, name) for name in ("", one.name)} & present
    ]


def _shortened(texts: list[str]) -> str:
    more = f" and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return ", ".join(texts[:_MOST_SHOWN]) + more
