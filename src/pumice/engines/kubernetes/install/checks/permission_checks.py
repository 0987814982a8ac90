"""Whether we may do what the table of permissions says, and whether the installed roles still grant all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.install.checks.check_result import APPLY_ALL, Check, found, good, lacking
from pumice.engines.kubernetes.install.permissions import Grant
from pumice.engines.kubernetes.install.rbac import ACCOUNTS, rule

CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
# Asked at once; a table has a hundred questions.
_AT_ONCE: Final = 16
_MOST_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class _Question:
    group: str
    resource: str
    verb: str
    name: str
    namespace: str

    @property
    def text(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" {self.name}" if self.name else "")


async def own_permissions(client: Client, grants: Iterable[Grant], namespace: str) -> Check:
    """Whether the user of this kubeconfig could run the controller and the webhook."""
    subject = "your permissions"
    asked = questions(grants, namespace)
    turn = asyncio.Semaphore(_AT_ONCE)

    async def ask(question: _Question) -> bool:
        async with turn:
            return await _may(client, question)

    answers = await asyncio.gather(*(ask(question) for question in asked))
    missing = [question.text for question, may in zip(asked, answers, strict=True) if not may]
    if missing:
        todo = "only needed to run pumice controller and pumice webhook as this user; docs/guides/permissions.md"
        return lacking(subject, f"may not {_shortened(missing)}", todo)
    return good(subject, f"all {len(asked)} that controller and webhook need")


async def installed_roles(client: Client, grants: Iterable[Grant]) -> Check:
    subject = "installed roles"
    granted, missing = list(grants), []
    for who, account in ACCOUNTS.items():
        role = await found(client, CLUSTER_ROLES, None, account)
        wanted = [grant for grant in granted if grant.who == who and not grant.at_home]
        if role is None and who == "controller":
            return good(subject, "none", "none is needed while controller and webhook run outside of the cluster")
        if role is not None:
            missing += [f"{account}: {text}" for text in _not_granted(role, wanted)]
    if missing:
        return lacking(subject, f"do not grant {_shortened(missing)}", APPLY_ALL)
    return good(subject, "grant what this version needs")


def questions(grants: Iterable[Grant], namespace: str) -> list[_Question]:
    """Each once, however many grants it stands in."""
    return list(dict.fromkeys(question for grant in grants for question in _questions(grant, namespace)))


def _questions(grant: Grant, namespace: str) -> Iterator[_Question]:
    for resource in grant.resources:
        for verb in grant.verbs:
            for name in grant.named or ("",):
                yield _Question(grant.group, resource, verb, name, namespace if grant.at_home else "")


async def _may(client: Client, question: _Question) -> bool:
    resource, _, subresource = question.resource.partition("/")
    attributes = {
        "group": question.group,
        "resource": resource,
        "subresource": subresource,
        "verb": question.verb,
        "name": question.name,
        "namespace": question.namespace,
    }
    kind = resources.ACCESS_REVIEWS
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {"resourceAttributes": attributes}}
    answer = msgspec.json.decode(await client.create(kind, None, msgspec.json.encode(body), attempts=3))
    return bool(answer["status"]["allowed"])


def _not_granted(role: Mapping[str, Any], grants: Iterable[Grant]) -> Iterator[str]:
    rules = [_allows(one) for one in role.get("rules") or []]
    for grant in grants:
        wanted = _allows(rule(grant))
        missing = wanted - frozenset().union(*rules)
        yield from sorted({f"{verb} {resource}" for _, resource, verb, _ in missing})


def _allows(one: Mapping[str, Any]) -> frozenset[tuple[str, str, str, str]]:
    return frozenset(
        (group, resource, verb, name)
        for group in one.get("apiGroups") or []
        for resource in one.get("resources") or []
        for verb in one.get("verbs") or []
        for name in one.get("resourceNames") or [""]
    )


def _shortened(missing: list[str]) -> str:
    more = f" and {len(missing) - _MOST_SHOWN} more" if len(missing) > _MOST_SHOWN else ""
    return ", ".join(missing[:_MOST_SHOWN]) + more
