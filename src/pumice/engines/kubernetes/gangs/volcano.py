"""Volcano's own scheduler: the PodGroup as the core writes it; pods are made when its phase says so."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.engines.kubernetes.cache.decode_pods import CachedPod
from pumice.engines.kubernetes.gangs.groups import CachedGroup, PodGroupManager
from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import ObservedGroup

_SCHEDULED = "Scheduled"


@dataclass(frozen=True, slots=True)
class VolcanoGang:
    groups: PodGroupManager
    name: str = "volcano"
    waits_for_group: bool = True

    def observed(self, job: Job) -> ObservedGroup | None:
        for group in self.groups.of(job, [naming.pod_group(job.name, job.uid)]):
            return ObservedGroup({"spec": group.spec}, group.phase, _why_not(group))
        return None

    async def ensure(self, job: Job, group: Manifest) -> None:
        there = self.groups.of(job, [group["metadata"]["name"]])
        if any(seen.spec.get("priorityClassName") for seen in there):
            # What a spec does not name stays as it is, and the job may have lost its priority class.
            group = {**group, "spec": {"priorityClassName": "", **group["spec"]}}
        await self.groups.ensure(job, group)

    async def remove(self, job: Job) -> None:
        await self.groups.remove(job, [naming.pod_group(job.name, job.uid)])

    def shape_pod(self, _job: Job, manifest: Manifest) -> Manifest:
        return manifest

    def check_pod(self, _wanted: Manifest, _made: CachedPod) -> None:
        """A member is known by its annotation, which every server keeps."""


def _why_not(group: CachedGroup) -> str:
    """What the scheduler says of a group that it has not placed."""
    holding = [condition for condition in group.conditions if condition.status == "True"]
    newest = max(holding, key=lambda condition: condition.last_transition_time or "", default=None)
    return newest.message if newest is not None and newest.type != _SCHEDULED else ""
