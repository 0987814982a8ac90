"""The PodGroup of a job: how many pods must start together, and which resources they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pumice.model import keys, naming
from pumice.model.job import Job, Manifest, NetworkTopology, PartitionPolicy, TaskSpec
from pumice.model.objects import owned
from pumice.model.quantity import Quantity
from pumice.model.resources import pod_usage, sum_usage
from pumice.model.vocabulary import VOLCANO

# The default of the CRD.
DEFAULT_MODE: Final = "hard"


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
