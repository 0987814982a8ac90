"""API discovery: the groups, versions and resources of a server, in two requests where the server is recent."""

from __future__ import annotations

import msgspec

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError

# Everything in one response; a server before 1.30 does not know this form and takes the last of the list.
_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)


class _Named(msgspec.Struct):
    name: str = ""


class _Subresource(msgspec.Struct):
    subresource: str = ""


class _Resource(msgspec.Struct):
    resource: str = ""
    subresources: list[_Subresource] | None = None


class _Version(msgspec.Struct, rename="camel"):
    version: str = ""
    group_version: str = ""  # only in the old form
    resources: list[_Resource] | None = None


class _Group(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)
    versions: list[_Version] | None = None


class _Groups(msgspec.Struct):
    items: list[_Group] | None = None
    groups: list[_Group] | None = None
    versions: list[str] | None = None  # of the core group in the old form


class _Resources(msgspec.Struct):
    resources: list[_Named] | None = None


async def discover(client: Client) -> frozenset[str]:
    """Return group versions and resources, such as `v1`, `batch.volcano.sh/v1alpha1/jobs` and `v1/pods/status`."""
    found: set[str] = set()
    for root in ("/api", "/apis"):
        raw = await client.request("GET", root, accept=_AGGREGATED, attempts=3)
        response = msgspec.json.decode(raw, type=_Groups)
        for group in response.items or ():
            for version in group.versions or ():
                name = f"{group.metadata.name}/{version.version}" if group.metadata.name else version.version
                found.add(name)
                for resource in version.resources or ():
                    found.add(f"{name}/{resource.resource}")
                    found.update(f"{name}/{resource.resource}/{sub.subresource}" for sub in resource.subresources or ())
        # The old form.
        old = [version.group_version for group in response.groups or () for version in group.versions or ()]
        for group_version in [*old, *(response.versions or ())]:
            found.add(group_version)
            found.update(await _resources_of(client, root, group_version))
    return frozenset(found)


async def _resources_of(client: Client, root: str, group_version: str) -> list[str]:
    try:
        response = await client.request("GET", f"{root}/{group_version}", attempts=3)
    except ApiError as error:
        # The group is registered, but its aggregated API server is down.
        if error.status in {404, 503}:
            return []
        raise
    resources = msgspec.json.decode(response, type=_Resources).resources or ()
    return [f"{group_version}/{resource.name}" for resource in resources]
