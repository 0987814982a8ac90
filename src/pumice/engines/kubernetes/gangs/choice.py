"""Which gang provider serves: the one that was asked for, or what the cluster has."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.discovery import has_resource
from pumice.engines.kubernetes.api.resources import Resource
from pumice.model.snapshot import COSCHEDULING, GANG_PROVIDERS, GangProvider

AUTO: Final = "auto"
NONE: Final = "none"
# In the order in which they are preferred.
PROVIDERS: Final[dict[str, tuple[Resource, ...]]] = {
    "volcano": (resources.VOLCANO_POD_GROUPS,),
    "native": resources.NATIVE_POD_GROUPS,
    "coscheduling": (resources.COSCHEDULING_POD_GROUPS,),
}
CHOICES: Final = (AUTO, *PROVIDERS, NONE)


class GangError(Exception):
    """The cluster does not have what was asked for."""


def chosen(asked: str, offered: frozenset[str]) -> tuple[str, Resource | None]:
    """The provider's name and the resource of its PodGroups."""
    if asked == NONE:
        return NONE, None
    names = PROVIDERS if asked == AUTO else (asked,)
    for name in names:
        for resource in PROVIDERS[name]:
            if has_resource(offered, resource):
                return name, resource
    if asked == AUTO:
        return NONE, None
    looked_for = " or ".join(resource.identity for resource in PROVIDERS[asked])
    raise GangError(f"--gang {asked}: the cluster does not serve {looked_for}{_HINTS[asked]}")


_HINTS: Final = {
    "volcano": "; install Volcano's scheduler, or `pumice install --gang volcano` for its definitions alone",
    "native": (
        "; start kube-apiserver, kube-controller-manager and kube-scheduler with --feature-gates=GenericWorkload=true, "
        "and kube-apiserver with --runtime-config=scheduling.k8s.io/v1beta1=true"
    ),
    "coscheduling": "; install the coscheduling plugin of kube-scheduler",
}


def provider(name: str, resource: Resource | None, scheduler: str) -> GangProvider:
    """The provider, with the version of its API that the cluster serves and the scheduler given for coscheduling."""
    known = GANG_PROVIDERS[name]
    return replace(
        known,
        api_version=resource.api_version if resource is not None else "",
        scheduler=scheduler if name == COSCHEDULING.name else known.scheduler,
    )
