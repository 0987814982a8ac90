"""Checks of what a cluster offers: its version, the definitions, gang providers, and who else serves Jobs there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.gangs.choice import AUTO, NONE, PROVIDERS, GangError, chosen
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks.check_result import (
    APPLY_ALL,
    APPLY_CRDS,
    Check,
    State,
    found,
    good,
    lacking,
)
from pumice.engines.kubernetes.install.labels import labels
from pumice.engines.kubernetes.install.pumice_fields import dropped_fields
from pumice.model.timestamps import read_time

# The first release with all that is used: bookmarks, server-side apply, admission v1, pruning by structural schemas.
OLDEST: Final = (1, 25)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
VOLCANO_CONTROLLER: Final = "app=volcano-controller"
OUR_CONTROLLER: Final = ",".join(f"{key}={value}" for key, value in labels("controller").items())
VOLCANO_OFF: Final = "--controllers=*,-job-controller,-gc-controller,-sharding-controller"
# A Lease that was not renewed for longer has no holder any more.
STALE: Final = dt.timedelta(seconds=60)


async def version(client: Client) -> Check:
    answer = msgspec.json.decode(await client.request("GET", "/version"))
    told = str(answer.get("gitVersion", "unknown"))
    numbers = [part for part in told.removeprefix("v").split(".")[:2] if part.isdigit()]
    if len(numbers) == len(OLDEST) and (int(numbers[0]), int(numbers[1])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return lacking(
            "Kubernetes", told, f"upgrade the cluster: {oldest} is the oldest release that Pumice is made for"
        )
    return good("Kubernetes", told)


async def job_definition(client: Client) -> Check:
    subject = "definition of Job"
    crd = await found(client, resources.CRDS, None, names.JOBS_CRD)
    if crd is None:
        return lacking(subject, "not there", APPLY_CRDS)
    if not _is_established(crd):
        return lacking(subject, "there, but not established", f"kubectl describe crd {names.JOBS_CRD}")
    dropped = dropped_fields(crd)
    if dropped:
        return lacking(subject, f"drops {', '.join(dropped)}", APPLY_CRDS)
    return good(subject, "keeps every field")


async def command_definition(client: Client) -> Check:
    subject = "definition of Command"
    crd = await found(client, resources.CRDS, None, names.COMMANDS_CRD)
    if crd is None:
        return lacking(subject, "not there; Commands (vcctl job suspend) cannot be given", APPLY_CRDS)
    return good(subject, "there")


def gang(asked: str, offered: frozenset[str]) -> Check:
    subject = "gang provider"
    there = [name for name, kinds in PROVIDERS.items() if any(kind.identity in offered for kind in kinds)]
    listed = f"found {', '.join(there)}" if there else "found none"
    try:
        name, _ = chosen(asked, offered)
    except GangError as error:
        message, _, todo = str(error).partition("; ")
        return lacking(subject, f"{listed}: {message}", todo)
    if name == NONE and asked == AUTO:
        return good(
            subject, f"{listed}: the pods of a job are scheduled one by one", "a gang scheduler avoids deadlocks"
        )
    return good(subject, f"{listed}; {name} is used")


async def volcano_controller(client: Client) -> Check:
    """Two controllers that both serve Jobs would undo each other's work."""
    subject = "Volcano's controller"
    async for items, _ in client.list_pages(DEPLOYMENTS, None, label_selector=VOLCANO_CONTROLLER):
        for raw in items:
            deployment = msgspec.json.decode(raw)
            if serves_jobs(deployment):
                meta = deployment["metadata"]
                where = f"{meta.get('namespace')}/{meta.get('name')}"
                todo = f"start it with {VOLCANO_OFF}, or scale it to 0: only one may write the same Jobs"
                return lacking(subject, f"Deployment {where} serves Jobs, too", todo)
    return good(subject, "does not serve Jobs here")


def serves_jobs(deployment: Mapping[str, Any]) -> bool:
    """Whether such a Deployment of Volcano runs its job controller."""
    spec = deployment.get("spec") or {}
    if spec.get("replicas", 1) == 0:
        return False
    gates = list(_gates(deployment))
    return "-job-controller" not in gates and (
        not gates or bool({"*", "job-controller", "+job-controller"} & set(gates))
    )


def _gates(deployment: Mapping[str, Any]) -> Iterator[str]:
    for container in _containers(deployment):
        words = _words(container)
        for word, following in zip(words, [*words[1:], ""], strict=True):
            if word == "--controllers":
                yield from following.split(",")
            elif word.startswith("--controllers="):
                yield from word.removeprefix("--controllers=").split(",")


def _containers(deployment: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    template = (deployment.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or []


def _words(container: Mapping[str, Any]) -> list[str]:
    return [*(container.get("command") or []), *(container.get("args") or [])]


async def controller(client: Client, namespace: str, now: dt.datetime) -> Check:
    """Find a controller by its Lease, wherever it runs; without leader election, only its Deployment shows it."""
    subject = "controller"
    for place in dict.fromkeys((namespace, "kube-system")):
        async for items, _ in client.list_pages(resources.LEASES, place):
            for lease in map(msgspec.json.decode, items):
                if holder := _holder(lease, now):
                    return good(subject, f"{holder} leads (Lease {place}/{lease['metadata']['name']})")
    async for items, _ in client.list_pages(DEPLOYMENTS, None, label_selector=OUR_CONTROLLER):
        for deployment in map(msgspec.json.decode, items):
            if runs_without_lease(deployment):
                return _check_without_lease(subject, deployment)
    # A controller that runs outside of the cluster without leader election leaves no trace that could be looked for.
    unseen = "a controller with --no-leader-elect outside of the cluster cannot be seen from here"
    todo = f"if none runs: {APPLY_ALL}, or start pumice controller on this machine"
    return Check(subject, State.UNKNOWN, f"no controller holds the Lease {namespace}/{names.LEASE}; {unseen}", todo)


def runs_without_lease(deployment: Mapping[str, Any]) -> bool:
    """Whether a Deployment starts `pumice controller` with `--no-leader-elect`, as a flag or by the environment."""
    for container in _containers(deployment):
        variables = {str(one.get("name")): str(one.get("value")) for one in container.get("env") or []}
        switch = variables.get("PUMICE_NO_LEADER_ELECT", "").lower()
        if "--no-leader-elect" in _words(container) or switch in ("1", "true", "yes"):
            return True
    return False


def _check_without_lease(subject: str, deployment: Mapping[str, Any]) -> Check:
    namespace, name = (deployment["metadata"].get(key) for key in ("namespace", "name"))
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    if ready == 0:
        todo = f"kubectl -n {namespace} describe deployment {name}"
        return lacking(subject, f"Deployment {namespace}/{name} has no ready pod", todo)
    if ready > 1:
        todo = "scale it to 1, or remove --no-leader-elect"
        return lacking(subject, f"{ready} pods of Deployment {namespace}/{name} write the same Jobs", todo)
    return good(subject, f"Deployment {namespace}/{name} runs without leader election")


def _holder(lease: Mapping[str, Any], now: dt.datetime) -> str:
    """Who leads by this Lease now; empty if nobody does, or if it is not ours."""
    spec = lease.get("spec") or {}
    renewed = read_time(spec.get("renewTime"))
    if renewed is None or now - renewed >= STALE or not lease["metadata"]["name"].startswith(names.LEASE):
        return ""
    return str(spec.get("holderIdentity") or "")


def _is_established(crd: Mapping[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
