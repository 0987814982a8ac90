"""The coscheduling plugin of kube-scheduler (`scheduling.x-k8s.io`): one PodGroup a job, members by a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.engines.kubernetes.cache.decode_pods import CachedPod
from pumice.engines.kubernetes.gangs.base import with_scheduler
from pumice.engines.kubernetes.gangs.groups import PodGroupManager
from pumice.engines.kubernetes.gangs.translation import annotated, asked_for, node_resources
from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import ObservedGroup

MEMBER_LABEL: Final = "scheduling.x-k8s.io/pod-group"
# As the project's own installation names it.
SCHEDULER: Final = "scheduler-plugins-scheduler"
_ADMITTED: Final = "Inqueue"


@dataclass(frozen=True, slots=True)
class Coscheduling:
    groups: PodGroupManager
    scheduler: str = SCHEDULER
    name: str = "coscheduling"
    waits_for_group: bool = True

    def observed(self, job: Job) -> ObservedGroup | None:
        for group in self.groups.of(job, [self._group_name(job)]):
            asked = asked_for(group.annotations)
            if asked is None or group.spec.get("minMember") != _spec(asked)["minMember"]:
                return ObservedGroup({}, _ADMITTED)
            return ObservedGroup(asked, _ADMITTED)
        return None

    async def ensure(self, job: Job, group: Manifest) -> None:
        made = annotated(job, self.groups.resource.api_version, self._group_name(job), _spec(group), group)
        await self.groups.ensure(job, made)

    async def remove(self, job: Job) -> None:
        await self.groups.remove(job, [self._group_name(job)])

    def shape_pod(self, job: Job, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        labels = {**metadata["labels"], MEMBER_LABEL: self._group_name(job)}
        return with_scheduler({**manifest, "metadata": {**metadata, "labels": labels}}, self.scheduler)

    def check_pod(self, _wanted: Manifest, _made: CachedPod) -> None:
        """A member is known by its label, which every server keeps."""

    def _group_name(self, job: Job) -> str:
        # The name is the value of a label, which may be no longer than 63 characters; a uid alone has 36.
        name = naming.pod_group(job.name, job.uid)
        return name if len(name) <= naming.LABEL_LIMIT else job.uid


def _spec(group: Manifest) -> Manifest:
    # The plugin refuses a group of nobody.
    return {"minMember": max(1, group["spec"]["minMember"]), "minResources": node_resources(group)}
