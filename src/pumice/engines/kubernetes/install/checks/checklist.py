"""The checks of `pumice install --check`, in order."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.install.checks import cluster_checks, permission_checks, webhook_checks
from pumice.engines.kubernetes.install.checks.check_result import CheckResult, result_of
from pumice.engines.kubernetes.install.permissions import granted


async def check_cluster(
    client: Client, namespace: str, gang: str, *, webhook: bool, now: dt.datetime
) -> AsyncIterator[CheckResult]:
    """Check an installation in `namespace`. Raises ApiError if the cluster does not answer."""
    yield await cluster_checks.version(client)
    yield await result_of("definition of Job", lambda: cluster_checks.job_definition(client))
    yield await result_of("definition of Command", lambda: cluster_checks.command_definition(client))
    yield cluster_checks.gang(gang, await client.discover())
    yield await result_of("Volcano's controller", lambda: cluster_checks.volcano_controller(client))
    yield await result_of("controller", lambda: cluster_checks.controller(client, namespace, now))
    if webhook:
        registered = await result_of("webhook", lambda: webhook_checks.registered(client))
        yield registered
        if registered.is_ok:
            # The webhook is not called for Jobs in these two namespaces.
            own = client.access.namespace
            trial = "default" if own in (namespace, "kube-system") else own
            yield await result_of("webhook's answer", lambda: webhook_checks.reachable(client, trial))
    grants = list(granted(gang, webhook=webhook))
    yield await result_of("installed roles", lambda: permission_checks.installed_roles(client, grants))
    yield await result_of("your permissions", lambda: permission_checks.own_permissions(client, grants, namespace))
