"""Checks of the cluster: its version, the definitions, gang providers, and the controllers that serve Jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import POD_GROUPS
from pumice.engines.kubernetes.gangs.choice import AUTO, NONE, GangError, choose
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks.check_result import (
    CheckResult,
    State,
    Target,
    get_or_none,
    missing,
    ok,
)
from pumice.engines.kubernetes.install.crds import dropped_fields
from pumice.engines.kubernetes.install.installation import DEPLOYMENTS, command_line, containers
from pumice.model.units import read_time

# The first release with bookmarks, server-side apply, admission v1 and pruning by structural schemas.
OLDEST: Final = (1, 25)
VOLCANO_CONTROLLER: Final = "app=volcano-controller"
VOLCANO_OFF: Final = "--controllers=*,-job-controller,-gc-controller,-sharding-controller"
# A Lease that was not renewed for longer has no holder any more.
STALE: Final = dt.timedelta(seconds=60)


async def version(client: Client) -> CheckResult:
    answer = msgspec.json.decode(await client.request("GET", "/version"))
    release = str(answer.get("gitVersion", "unknown"))
    numbers = [part for part in release.removeprefix("v").split(".")[:2] if part.isdigit()]
    if len(numbers) == len(OLDEST) and (int(numbers[0]), int(numbers[1])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return missing("Kubernetes", release, f"upgrade the cluster: Pumice needs {oldest} or newer")
    return ok("Kubernetes", release)


async def job_definition(client: Client, target: Target) -> CheckResult:
    subject = "definition of Job"
    crd = await get_or_none(client, resources.CRDS, None, names.JOBS_CRD)
    if crd is None:
        return missing(subject, "not installed", target.apply_crds)
    conditions = (crd.get("status") or {}).get("conditions") or []
    if not any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        return missing(subject, "installed, but not established", f"kubectl describe crd {names.JOBS_CRD}")
    dropped = dropped_fields(crd)
    if dropped:
        return missing(subject, f"drops {', '.join(dropped)}", target.apply_crds)
    return ok(subject, "keeps every field")


async def command_definition(client: Client, target: Target) -> CheckResult:
    subject = "definition of Command"
    crd = await get_or_none(client, resources.CRDS, None, names.COMMANDS_CRD)
    if crd is None:
        return missing(subject, "not installed; vcctl job suspend and resume do not work", target.apply_crds)
    return ok(subject, "installed")


def gang(requested: str, offered: frozenset[str]) -> CheckResult:
    subject = "gang provider"
    available = [name for name, kinds in POD_GROUPS.items() if any(kind.identity in offered for kind in kinds)]
    found = f"found {', '.join(available)}" if available else "found none"
    try:
        name, _ = choose(requested, offered)
    except GangError as error:
        return missing(subject, f"{found}: {error}", error.hint)
    if name == NONE and requested == AUTO:
        return ok(subject, f"{found}: the pods of a job are scheduled one by one", "a gang scheduler avoids deadlocks")
    return ok(subject, f"{found}; {name} is used")


async def volcano_controller(client: Client) -> CheckResult:
    """Check that Volcano's controller does not write the same Jobs."""
    subject = "Volcano's controller"
    async for items, _ in client.list_pages(DEPLOYMENTS, None, label_selector=VOLCANO_CONTROLLER):
        for deployment in map(msgspec.json.decode, items):
            if serves_jobs(deployment):
                hint = f"start it with {VOLCANO_OFF}, or scale it to 0: only one controller may write a Job"
                return missing(subject, f"Deployment {_full_name(deployment)} also serves Jobs", hint)
    return ok(subject, "does not serve Jobs here")


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
    subject = "controller"
    if leaders := [leader async for leader in _leaders(client, now)]:
        return ok(subject, "; ".join(leaders))
    async for items, _ in client.list_pages(DEPLOYMENTS, None, label_selector=names.selector("controller")):
        for deployment in map(msgspec.json.decode, items):
            if runs_without_lease(deployment):
                return _check_without_lease(subject, deployment)
    # A controller outside of the cluster without leader election leaves no trace in the cluster.
    unseen = "a controller with --no-leader-elect outside of the cluster cannot be seen from here"
    found = f"no controller holds the Lease {names.LEASE_NAMESPACE}/{names.LEASE}; {unseen}"
    hint = f"if none runs: {target.apply_all}, or start pumice controller on this machine"
    return CheckResult(subject, State.UNKNOWN, found, hint)


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


def _check_without_lease(subject: str, deployment: Mapping[str, Any]) -> CheckResult:
    meta, name = deployment["metadata"], _full_name(deployment)
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    if ready == 0:
        hint = f"kubectl -n {meta.get('namespace')} describe deployment {meta.get('name')}"
        return missing(subject, f"Deployment {name} has no ready pod", hint)
    if ready > 1:
        hint = "scale it to 1, or remove --no-leader-elect"
        return missing(subject, f"{ready} pods of Deployment {name} write the same Jobs", hint)
    return ok(subject, f"Deployment {name} runs without leader election")


def _full_name(deployment: Mapping[str, Any]) -> str:
    meta = deployment["metadata"]
    return f"{meta.get('namespace')}/{meta.get('name')}"
