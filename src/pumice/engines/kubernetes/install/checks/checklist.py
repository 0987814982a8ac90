"""The checks of `pumice install --check`, in order."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator

from msgspec.structs import replace

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.discovery import discover
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks import cluster_checks, permission_checks
from pumice.engines.kubernetes.install.checks.check_result import CheckResult, Target, get_or_none, result_of
from pumice.engines.kubernetes.install.installation import find_installation
from pumice.engines.kubernetes.install.permissions import Component, granted


async def find_target(client: Client, *, namespace: str, gang: str, webhook: bool, log_tails: bool = False) -> Target:
    """Return what to compare a cluster with: what is installed, but for what is given.

    Raises InstallationError if Pumice is installed in several namespaces and none is given.
    """
    try:
        installation = await find_installation(client, namespace)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        installation = None
    if installation is None:
        return Target(namespace or names.NAMESPACE, gang or "auto", webhook, keep_log_tails=log_tails)
    if webhook and not installation.has_webhook:
        # Without a webhook on purpose, unless the API server is to call one.
        configuration = await get_or_none(client, resources.VALIDATING_WEBHOOKS, None, names.CONFIGURATION)
        webhook = configuration is not None
    tails = log_tails or installation.keeps_log_tails
    return Target(installation.namespace, gang or installation.gang, webhook, installation, tails)


async def check_cluster(client: Client, target: Target, now: dt.datetime) -> AsyncIterator[CheckResult]:
    """Compare a cluster with a target. Raises ApiError if the cluster does not answer."""
    yield replace(await cluster_checks.version(client), subject="Kubernetes")
    yield await result_of("definition of Job", lambda: cluster_checks.job_definition(client, target))
    yield await result_of("definition of Command", lambda: cluster_checks.command_definition(client, target))
    yield replace(cluster_checks.gang(target.gang, await discover(client)), subject="gang provider")
    yield await result_of("Volcano's controller", lambda: cluster_checks.volcano_controller(client))
    yield await result_of("controller", lambda: cluster_checks.controller(client, target, now))
    for result in await _rollouts(client, target, "controller"):
        yield result
    if target.webhook:
        registered = await result_of("webhook", lambda: cluster_checks.webhook_registered(client, target))
        yield registered
        for result in await _rollouts(client, target, "webhook"):
            yield result
        if registered.is_ok:
            # The webhook is not called for Jobs in these two namespaces.
            own = client.access.namespace
            trial = "default" if own in (target.namespace, "kube-system") else own
            yield await result_of("webhook's answer", lambda: cluster_checks.webhook_answers(client, trial))
    grants = list(granted(target.gang, webhook=target.webhook, log_tails=target.keep_log_tails))
    namespace = target.namespace
    yield await result_of("installed roles", lambda: permission_checks.installed_roles(client, grants, target))
    yield await result_of("your permissions", lambda: permission_checks.own_permissions(client, grants, namespace))


async def _rollouts(client: Client, target: Target, component: Component) -> list[CheckResult]:
    """Return the check of a Deployment, if there is one."""
    deployment = target.installation.deployments.get(component) if target.installation is not None else None
    if deployment is None:
        return []
    check = cluster_checks.rollout
    return [await result_of(f"{component} pods", lambda: check(client, component, deployment))]
