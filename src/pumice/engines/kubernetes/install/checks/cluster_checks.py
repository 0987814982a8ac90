"""Checks of the cluster: version, definitions, gang providers, controllers, pods of the Deployments, the webhook."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import POD_GROUPS
from pumice.engines.kubernetes.gangs.choice import AUTO, NONE, GangError, choose
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks.check_result import (
    APPLY,
    CheckResult,
    State,
    Target,
    get_or_none,
    missing,
    ok,
)
from pumice.engines.kubernetes.install.crds import dropped_fields
from pumice.engines.kubernetes.install.installation import DEPLOYMENTS, command_line, containers
from pumice.engines.kubernetes.install.permissions import Component
from pumice.model.snapshot import BACK_OFF, IMAGE_REASONS
from pumice.model.units import read_time

# The first release with bookmarks, server-side apply, admission v1 and pruning by structural schemas.
OLDEST: Final = (1, 25)
VOLCANO_CONTROLLER: Final = "app=volcano-controller"
VOLCANO_OFF: Final = "--controllers=*,-job-controller,-gc-controller,-sharding-controller"
# A Lease that was not renewed for longer has no holder any more.
STALE: Final = dt.timedelta(seconds=60)
_MOST_CHARACTERS: Final = 300
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


async def version(client: Client) -> CheckResult:
    answer = msgspec.json.decode(await client.request("GET", "/version"))
    release = str(answer.get("gitVersion", "unknown"))
    numbers = [part for part in release.removeprefix("v").split(".")[:2] if part.isdigit()]
    if len(numbers) == len(OLDEST) and (int(numbers[0]), int(numbers[1])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return missing(release, f"upgrade the cluster: Pumice needs {oldest} or newer")
    return ok(release)


async def job_definition(client: Client, target: Target) -> CheckResult:
    crd = await get_or_none(client, resources.CRDS, None, names.JOBS_CRD)
    if crd is None:
        return missing("not installed", target.apply_crds)
    conditions = (crd.get("status") or {}).get("conditions") or []
    if not any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        return missing("installed, but not established", f"kubectl describe crd {names.JOBS_CRD}")
    dropped = dropped_fields(crd)
    if dropped:
        return missing(f"drops {', '.join(dropped)}", target.apply_crds)
    return ok("keeps every field")


async def command_definition(client: Client, target: Target) -> CheckResult:
    crd = await get_or_none(client, resources.CRDS, None, names.COMMANDS_CRD)
    if crd is None:
        return missing("not installed; vcctl job suspend and resume do not work", target.apply_crds)
    return ok("installed")


def gang(requested: str, offered: frozenset[str]) -> CheckResult:
    available = [name for name, kinds in POD_GROUPS.items() if any(kind.identity in offered for kind in kinds)]
    found = f"found {', '.join(available)}" if available else "found none"
    try:
        name, _ = choose(requested, offered)
    except GangError as error:
        return missing(f"{found}: {error}", error.hint)
    if name == NONE and requested == AUTO:
        return ok(f"{found}: the pods of a job are scheduled one by one", "a gang scheduler avoids deadlocks")
    return ok(f"{found}; {name} is used")


async def volcano_controller(client: Client) -> CheckResult:
    """Check that Volcano's controller does not write the same Jobs."""
    async for items, _ in client.list_pages(DEPLOYMENTS, None, label_selector=VOLCANO_CONTROLLER):
        for deployment in map(msgspec.json.decode, items):
            if serves_jobs(deployment):
                hint = f"start it with {VOLCANO_OFF}, or scale it to 0: only one controller may write a Job"
                return missing(f"Deployment {_full_name(deployment)} also serves Jobs", hint)
    return ok("does not serve Jobs here")


def serves_jobs(deployment: Mapping[str, Any]) -> bool:
    """Whether a Deployment of Volcano runs its job controller."""
    spec = deployment.get("spec") or {}
    if spec.get("replicas", 1) == 0:
        return False
    gates = set(_controller_gates(deployment))
    return not gates or ("-job-controller" not in gates and bool({"*", "job-controller", "+job-controller"} & gates))


def _controller_gates(deployment: Mapping[str, Any]) -> Iterator[str]:
    """Return the items of `--controllers`."""
    for container in containers(deployment):
        words = command_line(container)
        for word, following in zip(words, [*words[1:], ""], strict=True):
            if word == "--controllers":
                yield from following.split(",")
            elif word.startswith("--controllers="):
                yield from word.removeprefix("--controllers=").split(",")


async def controller(client: Client, target: Target, now: dt.datetime) -> CheckResult:
    """Find a controller by its Lease, wherever it runs; without leader election, only its Deployment shows it."""
    if leaders := [leader async for leader in _leaders(client, now)]:
        return ok("; ".join(leaders))
    async for items, _ in client.list_pages(DEPLOYMENTS, None, label_selector=names.selector("controller")):
        for deployment in map(msgspec.json.decode, items):
            if runs_without_lease(deployment):
                return _check_without_lease(deployment)
    # A controller outside of the cluster without leader election leaves no trace in the cluster.
    unseen = "a controller with --no-leader-elect outside of the cluster cannot be seen from here"
    found = f"no controller holds the Lease {names.LEASE_NAMESPACE}/{names.LEASE}; {unseen}"
    hint = f"if none runs: {target.apply_all}, or start pumice controller on this machine"
    return CheckResult(State.UNKNOWN, found, hint)


async def _leaders(client: Client, now: dt.datetime) -> AsyncIterator[str]:
    """Yield who leads, and for single namespaces which, by the Leases that are held."""
    async for items, _ in client.list_pages(resources.LEASES, names.LEASE_NAMESPACE):
        for lease in map(msgspec.json.decode, items):
            name, spec = lease["metadata"]["name"], lease.get("spec") or {}
            renewed, holder = read_time(spec.get("renewTime")), spec.get("holderIdentity")
            if not f"{name}-".startswith(f"{names.LEASE}-") or not holder or renewed is None or now - renewed >= STALE:
                continue
            scope = name.removeprefix(f"{names.LEASE}-") if name != names.LEASE else ""
            led = f" namespace {scope}" if scope else ""
            yield f"{holder} leads{led} (Lease {names.LEASE_NAMESPACE}/{name})"


def runs_without_lease(deployment: Mapping[str, Any]) -> bool:
    """Whether a Deployment starts `pumice controller` with `--no-leader-elect`, as a flag or by the environment."""
    for container in containers(deployment):
        variables = {str(one.get("name")): str(one.get("value")) for one in container.get("env") or []}
        switch = variables.get("PUMICE_NO_LEADER_ELECT", "").lower()
        if "--no-leader-elect" in command_line(container) or switch in ("1", "true", "yes"):
            return True
    return False


def _check_without_lease(deployment: Mapping[str, Any]) -> CheckResult:
    meta, name = deployment["metadata"], _full_name(deployment)
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    if ready == 0:
        hint = f"kubectl -n {meta.get('namespace')} describe deployment {meta.get('name')}"
        return missing(f"Deployment {name} has no ready pod", hint)
    if ready > 1:
        hint = "scale it to 1, or remove --no-leader-elect"
        return missing(f"{ready} pods of Deployment {name} write the same Jobs", hint)
    return ok(f"Deployment {name} runs without leader election")


def _full_name(deployment: Mapping[str, Any]) -> str:
    meta = deployment["metadata"]
    return f"{meta.get('namespace')}/{meta.get('name')}"


async def rollout(client: Client, component: Component, deployment: Mapping[str, Any]) -> CheckResult:
    """Check that all pods of a Deployment are those of its template, and ready."""
    meta, status = deployment["metadata"], deployment.get("status") or {}
    where, wanted = f"-n {meta['namespace']}", (deployment.get("spec") or {}).get("replicas", 1)
    ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
    image = ", ".join(str(one.get("image")) for one in containers(deployment))
    if wanted == 0:
        hint = f"kubectl {where} scale deployment/{meta['name']} --replicas=2"
        return missing(f"Deployment {meta['namespace']}/{meta['name']} is scaled to 0", hint)
    is_seen = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    if is_seen and status.get("replicas", 0) == updated == wanted <= ready:
        return ok(f"{ready} of {wanted} ready, image {image}")
    old = status.get("replicas", 0) - updated if is_seen else 0
    found = f"{updated if is_seen else 0} of {wanted} updated, {ready} ready{f', {old} old' * (old > 0)}, image {image}"
    async for items, _ in client.list_pages(
        resources.PODS, meta["namespace"], label_selector=names.selector(component)
    ):
        for pod in map(msgspec.json.decode, items):
            for reason, message in waiting(pod):
                name = pod["metadata"]["name"]
                return missing(f"{found}; {name} waits: {reason}{message}", _hint(reason, where, name))
    for condition in status.get("conditions") or []:
        if (condition.get("type"), condition.get("status")) in {("ReplicaFailure", "True"), ("Progressing", "False")}:
            reason, message = str(condition.get("reason")), _text(condition.get("message"))
            return missing(f"{found}; {reason}{message}", f"kubectl {where} describe deployment {meta['name']}")
    return missing(found, f"kubectl {where} rollout status deployment/{meta['name']}")


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


async def webhook_registered(client: Client, target: Target) -> CheckResult:
    both = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
    for name in (names.CONFIGURATION, names.OUTSIDE_CONFIGURATION):
        configurations = [one for kind in both if (one := await get_or_none(client, kind, None, name)) is not None]
        if len(configurations) == 1:
            return missing(f"only one of the two configurations {name} exists", target.apply_all)
        if configurations:
            if not all(map(_has_ca_bundle, configurations)):
                hint = f"kubectl -n {target.namespace} logs deployment/{names.WEBHOOK}"
                return missing(f"registered as {name}, but its certificate is not trusted yet", hint)
            policies = {hook.get("failurePolicy") for one in configurations for hook in one["webhooks"]}
            waits = "; failurePolicy is Ignore until it has answered" if policies != {"Fail"} else ""
            return ok(f"registered as {name}{waits if name == names.CONFIGURATION else ''}")
    return missing("not registered; only the controller checks Jobs", target.apply_all)


async def webhook_answers(client: Client, namespace: str) -> CheckResult:
    try:
        await client.create(resources.JOBS, namespace, msgspec.json.encode(_INVALID_JOB), dry_run=True)
    except ApiError as error:
        if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            # What the API server answers if it cannot call a webhook; it names the webhook.
            return missing(f"cannot be reached: {error}", "check its pods, its Service and the network")
        if not error.is_invalid:
            raise
        # Others give no causes, and no schema rejects this Job.
        if error.details.get("causes"):
            return ok(f"rejects an invalid Job (dry run in namespace {namespace})")
        return ok(f"another webhook rejects an invalid Job: {error}", "it may report fewer findings")
    return missing("an invalid Job is accepted", "check its log, and whether its address can be reached")


def _has_ca_bundle(configuration: Mapping[str, Any]) -> bool:
    hooks = configuration.get("webhooks") or []
    return bool(hooks) and all((hook.get("clientConfig") or {}).get("caBundle") for hook in hooks)
