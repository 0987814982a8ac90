"""The pod of a slot before any plugin: its template, and what the job adds.

The parts that all pods of a task share are computed once per task; only the index is added per pod.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pumice.model import keys, naming
from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.objects import owner_reference, with_claims
from pumice.model.pod import Pod
from pumice.model.slot import Slot

_COPIED_ANNOTATIONS: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME, keys.REVOCABLE_ZONE)
_COPIED_LABELS: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME)


def bare_pod(slot: Slot) -> Pod:
    job, task = slot.job, slot.task
    frame = job.derived(("frame", task.name), lambda job: _frame(job, task))
    index = str(slot.index)
    labels = {**frame.labels, keys.TASK_INDEX: index}
    if task.partition_policy is not None:
        labels[keys.PARTITION_ID] = str(slot.index // task.partition_policy.partition_size)
    metadata = {
        "name": slot.pod_name,
        "namespace": job.namespace,
        "labels": labels,
        "annotations": {**frame.annotations, keys.TASK_INDEX: index},
        "ownerReferences": frame.owners,
    }
    return Pod({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": frame.spec})


class _Frame(Struct, frozen=True):
    """The parts that all pods of a task share."""

    labels: dict[str, str]
    annotations: dict[str, str]
    owners: list[Manifest]
    spec: Manifest


def _frame(job: Job, task: TaskSpec) -> _Frame:
    metadata = task.template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), **_annotations(job, task)}
    if keys.VOLCANO_POD_GROUP in annotations:
        # A template must not add its pods to the gang of another job.
        annotations[keys.VOLCANO_POD_GROUP] = annotations[keys.POD_GROUP]
    return _Frame(
        labels={**(metadata.get("labels") or {}), **_labels(job, task)},
        annotations=annotations,
        owners=[owner_reference(job)],
        spec=with_claims(job, _spec(job, task)),
    )


def _labels(job: Job, task: TaskSpec) -> dict[str, str]:
    labels = {
        keys.JOB_NAME: job.name,
        keys.JOB_NAMESPACE: job.namespace,
        keys.QUEUE_NAME: job.spec.queue,
        keys.TASK_SPEC: task.name,
    }
    labels |= {key: job.metadata.labels[key] for key in _COPIED_LABELS if key in job.metadata.labels}
    return labels | _forwarding(job)


def _annotations(job: Job, task: TaskSpec) -> dict[str, str]:
    own = job.metadata.annotations
    annotations = {
        keys.JOB_NAME: job.name,
        keys.JOB_RETRY_COUNT: str(job.status.retry_count),
        keys.JOB_VERSION: str(job.status.version),
        keys.POD_GROUP: naming.pod_group(job.name, job.uid),
        keys.QUEUE_NAME: job.spec.queue,
        keys.TASK_SPEC: task.name,
        keys.TEMPLATE_UID: naming.template_uid(job.name, task.name),
    }
    if task.topology_policy:
        annotations[keys.NUMA_TOPOLOGY_POLICY] = task.topology_policy
    annotations |= {key: own[key] for key in _COPIED_ANNOTATIONS if key in own}
    # A disruption budget is either a floor or a ceiling; the floor wins.
    for key in (keys.JDB_MIN_AVAILABLE, keys.JDB_MAX_UNAVAILABLE):
        if key in own:
            annotations[key] = own[key]
            break
    return annotations | _forwarding(job)


def _forwarding(job: Job) -> dict[str, str]:
    """Copy the mark of a job that a multi-cluster queue forwards to another cluster."""
    forwarded = job.metadata.annotations.get(keys.JOB_FORWARDING) == "true"
    return {keys.JOB_FORWARDING: "true"} if forwarded else {}


def _spec(job: Job, task: TaskSpec) -> Manifest:
    spec: Manifest = dict(task.pod_spec)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = job.spec.scheduler_name
    if not spec.get("priorityClassName") and job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    return spec
