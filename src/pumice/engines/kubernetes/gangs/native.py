"""Kubernetes' own gangs (`scheduling.k8s.io`, from 1.36): PodGroups, and `spec.schedulingGroup` of the pods.

All pods of a group must have one priority, so that tasks of different priorities become groups of their own. A server
whose feature gate is off drops `schedulingGroup` without a word; pods that lost it would start one by one, so they are
refused rather than hoped for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.engines.kubernetes.cache.decode_pods import CachedPod
from pumice.engines.kubernetes.gangs.base import DEFAULT_SCHEDULER, with_scheduler
from pumice.engines.kubernetes.gangs.groups import CachedGroup, PodGroupManager
from pumice.engines.kubernetes.gangs.translation import annotated, asked_for, by_priority, shares
from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import ObservedGroup
from pumice.runtime.ports import EngineError

_ADMITTED: Final = "Inqueue"
# 1.37 and 1.36 say it with different words.
_SCHEDULED: Final = ("PodGroupInitiallyScheduled", "PodGroupScheduled")


@dataclass(frozen=True, slots=True)
class NativeGang:
    groups: PodGroupManager
    name: str = "native"
    waits_for_group: bool = True

    def observed(self, job: Job) -> ObservedGroup | None:
        names = group_names(job)
        found = self.groups.of(job, names.values())
        if not found:
            return None
        asked = asked_for(found[0].annotations)
        if asked is None or len(found) != len(names) or not _as_asked(job, asked, found):
            # Something is missing or was edited: it is put right, and pods may be made meanwhile as before.
            return ObservedGroup({}, _ADMITTED if len(found) == len(names) else "")
        return ObservedGroup(asked, _ADMITTED, next((why for group in found if (why := _why_not(group))), ""))

    async def ensure(self, job: Job, group: Manifest) -> None:
        for name, spec in _specs(job, group).items():
            await self.groups.ensure(job, annotated(job, self.groups.resource.api_version, name, spec, group))

    async def remove(self, job: Job) -> None:
        await self.groups.remove(job, group_names(job).values())

    def shape_pod(self, job: Job, manifest: Manifest) -> Manifest:
        priority = manifest["spec"].get("priorityClassName") or ""
        name = group_names(job).get(priority)
        if name is None:
            pod = manifest["metadata"]["name"]
            message = f"no task of the job has priorityClassName {priority}, so pod {pod} would have no gang"
            raise EngineError("GangUnsupported", message)
        shaped = with_scheduler(manifest, DEFAULT_SCHEDULER)
        return {**shaped, "spec": {**shaped["spec"], "schedulingGroup": {"podGroupName": name}}}

    def check_pod(self, wanted: Manifest, made: CachedPod) -> None:
        if made.group != wanted["spec"]["schedulingGroup"]["podGroupName"]:
            raise EngineError(
                "GangUnsupported",
                f"the API server dropped spec.schedulingGroup of pod {made.name}: its feature gate GenericWorkload is "
                "off; turn it on, or start the controller with another --gang",
            )


def group_names(job: Job) -> dict[str, str]:
    """The name of the group of each priority: the job's own name for it, numbered if there are several."""
    stem = naming.pod_group(job.name, job.uid)
    priorities = list(by_priority(job))
    if len(priorities) == 1:
        return {priorities[0]: stem}
    return {priority: f"{stem}-{number}" for number, priority in enumerate(priorities)}


def _specs(job: Job, group: Manifest) -> dict[str, Manifest]:
    sets, names = by_priority(job), group_names(job)
    counts = shares(group, sets)
    return {names[priority]: _spec(priority, counts[priority]) for priority in sets}


def _spec(priority: str, count: int) -> Manifest:
    # A gang of nobody is no gang.
    policy: Manifest = {"gang": {"minCount": count}} if count > 0 else {"basic": {}}
    return {"schedulingPolicy": policy, **({"priorityClassName": priority} if priority else {})}


def _as_asked(job: Job, asked: Manifest, found: list[CachedGroup]) -> bool:
    wanted = _specs(job, asked)
    return all(group.spec.get("schedulingPolicy") == wanted[group.name]["schedulingPolicy"] for group in found)


def _why_not(group: CachedGroup) -> str:
    condition = group.condition(*_SCHEDULED)
    return condition.message if condition is not None and condition.status == "False" else ""
