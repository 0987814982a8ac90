"""What the core says of a PodGroup, in the words of schedulers that know less.

The core's own PodGroup is kept as an annotation of what stands for it, so that after a restart of the controller it is
still known what was asked for, and an edit by somebody else is noticed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.objects import owned

ASKED_FOR: Final = "pumice/pod-group"
# What of minResources is a resource of a node; the rest counts quotas.
_OF_QUOTA: Final = ("count/", "limits.", "requests.")


def annotated(job: Job, api_version: str, name: str, spec: Manifest, group: Manifest) -> Manifest:
    """A group of another API, with the core's own beside it."""
    made = owned(job, api_version, "PodGroup", name, {"spec": spec})
    made["metadata"]["annotations"] = {ASKED_FOR: msgspec.json.encode(group["spec"], order="sorted").decode()}
    return made


def asked_for(annotations: dict[str, str]) -> Manifest | None:
    """The core's PodGroup, read back; None if the annotation was damaged."""
    try:
        spec: Any = msgspec.json.decode(annotations.get(ASKED_FOR, ""))
    except msgspec.DecodeError:
        return None
    return {"spec": spec} if isinstance(spec, dict) else None


def node_resources(group: Manifest) -> dict[str, str]:
    resources: dict[str, str] = group["spec"].get("minResources") or {}
    return {name: amount for name, amount in resources.items() if name != "pods" and not name.startswith(_OF_QUOTA)}


def priority_of(job: Job, task: TaskSpec) -> str:
    """The priority class that the pods of the task will have."""
    own: str = task.pod_spec.get("priorityClassName") or ""
    return own or job.spec.priority_class_name


def by_priority(job: Job) -> dict[str, list[TaskSpec]]:
    """The tasks in sets of one priority each, in the order of their first task."""
    sets: dict[str, list[TaskSpec]] = {}
    for task in job.spec.tasks:
        sets.setdefault(priority_of(job, task), []).append(task)
    return sets


def shares(group: Manifest, sets: dict[str, list[TaskSpec]]) -> dict[str, int]:
    """How many pods of each set must start together.

    With one set that is the job's minimum. With several, each must have the minima of its own tasks; where the job is
    content with fewer, the sets that come first are served first.
    """
    wanted: int = group["spec"]["minMember"]
    least: dict[str, int] = group["spec"].get("minTaskMember") or {}
    if len(sets) == 1:
        return dict.fromkeys(sets, wanted)
    counts = {}
    for priority, tasks in sets.items():
        counts[priority] = min(wanted, sum(least.get(task.name, 0) for task in tasks))
        wanted -= counts[priority]
    return counts
