"""Choice of the gang provider: the requested one, or the best that the cluster offers."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pumice.engines.kubernetes.api.resources import POD_GROUPS, Resource
from pumice.model.pumice_error import PumiceError
from pumice.model.vocabulary import COSCHEDULING, GANG_PROVIDERS, NATIVE, NO_GANG, VOLCANO, GangProvider

AUTO: Final = "auto"
NONE: Final = NO_GANG.name
CHOICES: Final = (AUTO, *GANG_PROVIDERS)
_HINTS: Final = {
    VOLCANO.name: "install Volcano's scheduler, or `pumice install --gang volcano` for its definitions alone",
    NATIVE.name: (
        "start kube-apiserver, kube-controller-manager and kube-scheduler with --feature-gates=GenericWorkload=true, "
        "and kube-apiserver with --runtime-config=scheduling.k8s.io/v1beta1=true"
    ),
    COSCHEDULING.name: "install the coscheduling plugin of kube-scheduler",
}


class GangError(PumiceError):
    """The cluster does not serve the PodGroups of the requested provider."""


def choose(requested: str, offered: frozenset[str]) -> tuple[str, Resource | None]:
    """The name of the provider and the resource of its PodGroups."""
    for name, kinds in POD_GROUPS.items():
        for resource in kinds:
            if requested in (name, AUTO) and resource.identity in offered:
                return name, resource
    if requested in (NONE, AUTO):
        return NONE, None
    missing = " or ".join(resource.identity for resource in POD_GROUPS[requested])
    raise GangError(f"--gang {requested}: the cluster does not serve {missing}", _HINTS[requested])


def make_provider(name: str, resource: Resource | None, scheduler: str) -> GangProvider:
    """The provider with the version of its API that the cluster serves and, for coscheduling, the given scheduler."""
    provider = GANG_PROVIDERS[name]
    return replace(
        provider,
        api_version=resource.api_version if resource is not None else "",
        scheduler=scheduler if name == COSCHEDULING.name else provider.scheduler,
    )
