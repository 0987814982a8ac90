"""Gang providers: what starts the pods of a job together on a cluster, and what its scheduler and PodGroups are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VOLCANO_SCHEDULER: Final = "volcano"
DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class GangProvider:
    name: str
    api_version: str = ""  # of its PodGroups; empty: it has none
    scheduler: str = VOLCANO_SCHEDULER  # serves the pods that would otherwise go to Volcano's scheduler

    @property
    def has_groups(self) -> bool:
        """Whether a PodGroup decides when pods may be created."""
        return self.api_version != ""


VOLCANO: Final = GangProvider("volcano", "scheduling.volcano.sh/v1beta1")
NATIVE: Final = GangProvider("native", "scheduling.k8s.io/v1beta1", DEFAULT_SCHEDULER)
# The scheduler has the name that the coscheduling project's own installation gives it.
COSCHEDULING: Final = GangProvider("coscheduling", "scheduling.x-k8s.io/v1alpha1", "scheduler-plugins-scheduler")
NO_GANG: Final = GangProvider("none", scheduler=DEFAULT_SCHEDULER)

GANG_PROVIDERS: Final = {provider.name: provider for provider in (VOLCANO, NATIVE, COSCHEDULING, NO_GANG)}
