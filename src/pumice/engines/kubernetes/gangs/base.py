"""What the engine asks of a gang provider.

The core speaks of one PodGroup a job, in Volcano's form. A provider keeps that, or what stands for it with its own
scheduler, and gives the pods what makes them members.
"""

from __future__ import annotations

from typing import Protocol

from pumice.engines.kubernetes.cache.decode_pods import CachedPod
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import ObservedGroup

# The scheduler that Volcano's users name; where it is not, the one that serves instead is put in its place.
VOLCANO_SCHEDULER = "volcano"
DEFAULT_SCHEDULER = "default-scheduler"


class Gang(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def waits_for_group(self) -> bool:
        """Whether pods are made only when a group is there."""
        ...

    def observed(self, job: Job) -> ObservedGroup | None: ...

    async def ensure(self, job: Job, group: Manifest) -> None: ...

    async def remove(self, job: Job) -> None: ...

    def shape_pod(self, job: Job, manifest: Manifest) -> Manifest: ...

    def check_pod(self, wanted: Manifest, made: CachedPod) -> None:
        """Raises EngineError if the server dropped what makes the pod a member."""
        ...


def with_scheduler(manifest: Manifest, scheduler: str) -> Manifest:
    """The pod for a cluster where Volcano's scheduler is not the one that serves."""
    spec = manifest["spec"]
    if spec.get("schedulerName") not in ("", None, VOLCANO_SCHEDULER):
        return manifest
    return {**manifest, "spec": {**spec, "schedulerName": scheduler}}
