"""`pumice install --check`: everything that a cluster has and lacks, looked at one after another."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks import cluster_checks, permission_checks, webhook_checks
from pumice.engines.kubernetes.install.checks.check_result import Check, looked_at
from pumice.engines.kubernetes.install.permissions import granted


@dataclass(frozen=True, slots=True)
class Question:
    namespace: str = names.NAMESPACE
    gang: str = "auto"
    webhook: bool = True


async def check(client: Client, asked: Question, now: dt.datetime) -> AsyncIterator[Check]:
    """Raises ApiError if the cluster does not answer."""
    yield await cluster_checks.version(client)
    definition = await looked_at("definition of Job", lambda: cluster_checks.job_definition(client))
    yield definition
    yield await looked_at("definition of Command", lambda: cluster_checks.command_definition(client))
    yield cluster_checks.gang(asked.gang, await client.discover())
    yield await looked_at("Volcano's controller", lambda: cluster_checks.volcano_controller(client))
    yield await looked_at("controller", lambda: cluster_checks.controller(client, asked.namespace, now))
    if asked.webhook:
        registered = await looked_at("webhook", lambda: webhook_checks.registered(client))
        yield registered
        if registered.is_good:
            place = _tried_in(client, asked.namespace)
            yield await looked_at("webhook's answer", lambda: webhook_checks.reachable(client, place))
    grants = list(granted(asked.gang, webhook=asked.webhook))
    yield await looked_at("installed roles", lambda: permission_checks.installed_roles(client, grants))
    yield await looked_at(
        "your permissions", lambda: permission_checks.own_permissions(client, grants, asked.namespace)
    )


def _tried_in(client: Client, own: str) -> str:
    """A namespace in which the webhook is asked."""
    namespace = client.access.namespace
    return "default" if namespace in (own, "kube-system") else namespace
