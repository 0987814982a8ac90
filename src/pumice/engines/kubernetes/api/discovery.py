"""What an API server offers: groups, versions and resources, in two requests where the server is not very old."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource

# Everything in one answer; a server that does not know this form (before 1.30) takes the next one of the list.
_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)


class _Ask(Protocol):
    async def __call__(self, method: str, path: str, *, accept: str = ..., attempts: int | None = ...) -> bytes: ...


class _Named(msgspec.Struct):
    name: str = ""


class _Sub(msgspec.Struct):
    subresource: str = ""


class _Listed(msgspec.Struct):
    resource: str = ""
    subresources: list[_Sub] | None = None


class _Version(msgspec.Struct, rename="camel"):
    version: str = ""
    # Only in the old form.
    group_version: str = ""
    resources: list[_Listed] | None = None


class _Group(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)
    versions: list[_Version] | None = None


class _Groups(msgspec.Struct):
    kind: str = ""
    items: list[_Group] | None = None
    groups: list[_Group] | None = None
    # In the old form of the core group, its versions are plain words.
    versions: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_Named] | None = None


def has_resource(offered: frozenset[str], resource: Resource) -> bool:
    return resource.identity in offered


async def discover(ask: _Ask) -> frozenset[str]:
    found: set[str] = set()
    for root in ("/api", "/apis"):
        answer = msgspec.json.decode(await ask("GET", root, accept=_AGGREGATED, attempts=3), type=_Groups)
        if answer.kind == "APIGroupDiscoveryList":
            found.update(_aggregated(answer.items or ()))
        else:
            old = [version.group_version for group in answer.groups or () for version in group.versions or ()]
            found.update(await _one_by_one(ask, root, [*old, *(answer.versions or ())]))
    return frozenset(found)


def _aggregated(groups: Iterable[_Group]) -> Iterable[str]:
    for group in groups:
        for version in group.versions or ():
            name = f"{group.metadata.name}/{version.version}" if group.metadata.name else version.version
            yield name
            for resource in version.resources or ():
                yield f"{name}/{resource.resource}"
                for sub in resource.subresources or ():
                    yield f"{name}/{resource.resource}/{sub.subresource}"


async def _one_by_one(ask: _Ask, root: str, versions: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for version in versions:
        found.add(version)
        try:
            answer = await ask("GET", f"{root}/{version}", attempts=3)
        except ApiError as error:
            # A group whose own server is away is there, but nobody can say what is in it.
            if error.status in {404, 503}:
                continue
            raise
        resources = msgspec.json.decode(answer, type=_Resources).resources or ()
        found.update(f"{version}/{resource.name}" for resource in resources)
    return found
