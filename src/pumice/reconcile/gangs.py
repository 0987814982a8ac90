"""The PodGroups and pods of a job in the form that each gang provider understands.

- volcano: one PodGroup, as `pod_group` makes it; pods need nothing beyond their annotation.
- native: a `scheduling.k8s.io` PodGroup for each priority class, because all pods of a group must have the same
  priority; pods name their group in `spec.schedulingGroup`.
- coscheduling: one `scheduling.x-k8s.io` PodGroup; pods name it in a label.
- none: no PodGroup; pods go to the default scheduler.

The PodGroups of native and coscheduling hold less than Volcano's, so the whole of it goes into an annotation: a change
of the job that only the annotation shows still reaches the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from pumice.model import keys, naming
from pumice.model.job import Job, Manifest, NetworkTopology, PartitionPolicy, TaskSpec
from pumice.model.objects import owned
from pumice.model.pod import Pod
from pumice.model.quantity import Quantity
from pumice.model.resources import pod_usage, sum_usage
from pumice.model.slot import Slot
from pumice.model.vocabulary import COSCHEDULING, NATIVE, VOLCANO, VOLCANO_SCHEDULER, GangProvider
from pumice.plugins.base import Base, PluginError

# The default of the CRD.
DEFAULT_MODE: Final = "hard"
# Names in minResources that count against a quota; the others are resources of a node.
_OF_QUOTA: Final = ("count/", "limits.", "requests.")
# The field by which an edit of a PodGroup is noticed; a server may drop others, depending on its feature gates.
_DECISIVE_FIELD: Final = {NATIVE.name: "schedulingPolicy", COSCHEDULING.name: "minMember"}


@dataclass(frozen=True, slots=True)
class GangMembership(Base):
    """Adds to a pod what makes it a member of its gang; applied like a plugin, after all plugins."""

    name: ClassVar[str] = "gang"
    provider: GangProvider = VOLCANO

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        if self.provider.name == VOLCANO.name:
            return pod
        metadata, spec = pod.manifest["metadata"], dict(pod.spec)
        if spec.get("schedulerName") in ("", None, VOLCANO_SCHEDULER):
            spec["schedulerName"] = self.provider.scheduler
        if self.provider.name == NATIVE.name:
            spec["schedulingGroup"] = {"podGroupName": _native_group(pod, slot.job)}
        elif self.provider.name == COSCHEDULING.name:
            [name] = group_names(slot.job, self.provider)
            metadata = {**metadata, "labels": {**metadata["labels"], keys.COSCHEDULING_POD_GROUP: name}}
        return Pod({**pod.manifest, "metadata": metadata, "spec": spec})

    def why(self, slot: Slot) -> Mapping[str, str]:  # noqa: ARG002 - the same for all pods
        group = "the PodGroup that the pod starts with"
        return {
            "schedulerName": f"--gang {self.provider.name}, in place of {VOLCANO_SCHEDULER}",
            "schedulingGroup": group,
            f"label {keys.COSCHEDULING_POD_GROUP}": group,
        }


def group_names(job: Job, provider: GangProvider) -> list[str]:
    """The names of the job's PodGroups."""
    if not provider.has_groups:
        return []
    name = naming.pod_group(job.name, job.uid)
    if provider.name == NATIVE.name:
        return list(_native_groups(job).values())
    # With coscheduling the name is also the value of a label; a uid alone is short enough.
    return [job.uid if provider.name == COSCHEDULING.name and len(name) > naming.LABEL_LIMIT else name]


def pod_groups(
    job: Job,
    provider: GangProvider,
    priorities: Mapping[str, int] | None = None,
    may_start: frozenset[str] | None = None,
) -> list[Manifest]:
    """The PodGroups of a job, as its gang provider reads them; the arguments are those of `pod_group`."""
    if not provider.has_groups:
        return []
    whole = pod_group(job, priorities, may_start)
    if provider.name == VOLCANO.name:
        return [whole]
    specs = _native_specs(job, whole) if provider.name == NATIVE.name else [_coscheduling_spec(whole)]
    note = {keys.WHOLE_POD_GROUP: msgspec.json.encode(whole["spec"], order="sorted").decode()}
    groups = []
    for name, spec in zip(group_names(job, provider), specs, strict=True):
        group = owned(job, provider.api_version, "PodGroup", name, {"spec": spec})
        group["metadata"]["annotations"] = note
        groups.append(group)
    return groups


def decisive_part(group: Manifest, provider: GangProvider) -> Manifest:
    """What must be on the server for a PodGroup to be up to date."""
    if provider.name == VOLCANO.name:
        return {"spec": group["spec"]}
    field = _DECISIVE_FIELD[provider.name]
    annotations = group["metadata"]["annotations"]
    return {"metadata": {"annotations": annotations}, "spec": {field: group["spec"][field]}}


def _native_group(pod: Pod, job: Job) -> str:
    priority = pod.spec.get("priorityClassName") or ""
    name = job.derived("native groups", _native_groups).get(priority)
    if name is None:
        # Only a plugin can have changed it.
        message = f"pod {pod.name} has priorityClassName {priority}, which no task has, so it would have no gang"
        raise PluginError(" or ".join(job.spec.plugins), message)
    return name


def _native_groups(job: Job) -> dict[str, str]:
    """The name of the PodGroup of each priority class: the job's own name for it, numbered if there are several."""
    name = naming.pod_group(job.name, job.uid)
    priorities = list(_by_priority(job))
    if len(priorities) == 1:
        return {priorities[0]: name}
    return {priority: f"{name}-{number}" for number, priority in enumerate(priorities)}


def _by_priority(job: Job) -> dict[str, list[TaskSpec]]:
    """The tasks by the priority class of their pods, in the order of their first task."""
    tasks: dict[str, list[TaskSpec]] = {}
    for task in job.spec.tasks:
        own: str = task.pod_spec.get("priorityClassName") or ""
        tasks.setdefault(own or job.spec.priority_class_name, []).append(task)
    return tasks


def _native_specs(job: Job, whole: Manifest) -> list[Manifest]:
    """A spec for each priority class, with the number of pods that must start together.

    With one priority class that is the job's minimum. With several, each has the minima of its own tasks; where the job
    needs fewer, the classes that come first are served first.
    """
    left: int = whole["spec"]["minMember"]
    minima: dict[str, int] = whole["spec"]["minTaskMember"]
    by_priority = _by_priority(job)
    specs = []
    for priority, tasks in by_priority.items():
        count = left if len(by_priority) == 1 else min(left, sum(minima[task.name] for task in tasks))
        left -= count
        # The API refuses a gang of 0 pods.
        policy: Manifest = {"gang": {"minCount": count}} if count > 0 else {"basic": {}}
        specs.append({"schedulingPolicy": policy, **({"priorityClassName": priority} if priority else {})})
    return specs


def _coscheduling_spec(whole: Manifest) -> Manifest:
    resources = whole["spec"]["minResources"]
    of_nodes = {name: value for name, value in resources.items() if name != "pods" and not name.startswith(_OF_QUOTA)}
    # The plugin refuses a group of 0 pods.
    return {"minMember": max(1, whole["spec"]["minMember"]), "minResources": of_nodes}


def pod_group(
    job: Job, priorities: Mapping[str, int] | None = None, may_start: frozenset[str] | None = None
) -> Manifest:
    """The PodGroup of a job; `priorities` are the values of the cluster's priority classes.

    Only tasks in `may_start` count: the scheduler would wait in vain for pods that dependsOn holds back.
    """
    counted = [task for task in job.spec.tasks if may_start is None or task.name in may_start]
    spec: Manifest = {
        "minMember": min(job.spec.min_available, sum(task.replicas for task in counted)),
        "minTaskMember": dict.fromkeys((task.name for task in job.spec.tasks), 0)
        | {task.name: task.min_members for task in counted},
        "queue": job.spec.queue,
        "minResources": {name: str(amount) for name, amount in min_resources(job, counted, priorities or {}).items()},
    }
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    if job.spec.network_topology is not None:
        spec["networkTopology"] = _topology(job.spec.network_topology)
    policies = [(task.name, task.partition_policy) for task in job.spec.tasks if task.partition_policy is not None]
    if policies:
        spec["subGroupPolicy"] = [_sub_group(task, policy) for task, policy in policies]
    group = owned(job, VOLCANO.api_version, "PodGroup", naming.pod_group(job.name, job.uid), {"spec": spec})
    # kubectl's copy of the Job, which may contain ssh keys, describes the Job and not the PodGroup.
    annotations = {key: value for key, value in job.metadata.annotations.items() if key != keys.LAST_APPLIED}
    for field, values in (("labels", job.metadata.labels), ("annotations", annotations)):
        if values:
            group["metadata"][field] = values
    return group


def min_resources(job: Job, startable: Sequence[TaskSpec], priorities: Mapping[str, int]) -> dict[str, Quantity]:
    """The resources of the smallest gang: pods of the tasks with the highest priority are counted first."""
    tasks = sorted(startable, key=lambda task: -priorities.get(task.pod_spec.get("priorityClassName") or "", 0))
    counted = sum(task.min_members for task in tasks)
    wanted = job.spec.min_available
    if wanted < counted:
        taken = _take(wanted, ((task, task.replicas) for task in tasks))
    else:
        floor = [(task, task.min_available or 0) for task in tasks]
        spare = [(task, task.replicas - (task.min_available or 0)) for task in tasks]
        taken = _take(wanted, [*floor, *spare])
    return sum_usage([(pod_usage(task.pod_spec), count) for task, count in taken])


def _take(wanted: int, offers: Iterable[tuple[TaskSpec, int]]) -> list[tuple[TaskSpec, int]]:
    """Take pods from each offer in turn until there are as many as wanted."""
    taken = []
    for task, offered in offers:
        count = max(0, min(offered, wanted))
        wanted -= count
        taken.append((task, count))
    return taken


def _sub_group(task: str, policy: PartitionPolicy) -> Manifest:
    group: Manifest = {
        "name": task,
        "subGroupSize": policy.partition_size,
        "minSubGroups": policy.min_partitions,
        "labelSelector": {"matchLabels": {keys.TASK_SPEC: task}},
        "matchLabelKeys": [keys.PARTITION_ID],
    }
    if policy.network_topology is not None:
        group["networkTopology"] = _topology(policy.network_topology)
    return group


def _topology(topology: NetworkTopology) -> Manifest:
    fields: Manifest = {"mode": topology.mode or DEFAULT_MODE}
    if topology.highest_tier_allowed is not None:
        fields["highestTierAllowed"] = topology.highest_tier_allowed
    elif topology.highest_tier_name:
        fields["highestTierName"] = topology.highest_tier_name
    return fields
