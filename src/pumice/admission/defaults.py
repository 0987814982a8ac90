"""Volcano's defaults of a new Job, as a defaulted Job and as a JSON patch of the raw object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.model import naming
from pumice.model.job import Job, TaskSpec, first_min_available
from pumice.model.vocabulary import MAX_RETRY
from pumice.plugins.registry import Registry

QUEUE: Final = "default"
SCHEDULER: Final = "volcano"
HOST_NETWORK_DNS: Final = "ClusterFirstWithHostNet"

Operation = dict[str, Any]


def with_defaults(job: Job, registry: Registry, scheduler: str = SCHEDULER) -> Job:
    spec = job.spec
    tasks = [_task_with_defaults(task, position) for position, task in enumerate(spec.tasks)]
    spec = msgspec.structs.replace(
        spec,
        queue=spec.queue or QUEUE,
        scheduler_name=spec.scheduler_name or scheduler,
        max_retry=spec.max_retry or MAX_RETRY,
        tasks=tasks,
        min_available=spec.min_available or sum(task.min_available or 0 for task in tasks),
        plugins={name: list(args) for name, args in registry.with_required(spec.plugins).items()},
    )
    return msgspec.structs.replace(job, spec=spec)


def with_first_min_available(job: Job, first: Mapping[str, int] | None = None) -> Job:
    """The job with the minAvailable of its creation where it has none: a default does not change with the replicas.

    `first` is by task, as the status records it; that of the job has an empty name. If the job has its own, the user
    has decided: then the default of a task does not stand in the way of fewer replicas.
    """
    known = first_min_available(job.status.controlled_resources) if first is None else first
    written = job.spec.min_available

    def least_of(task: TaskSpec, position: int) -> int | None:
        least = known.get(task.name or naming.default_task(position))
        return min(least, task.replicas) if least is not None and written else least

    tasks = [
        msgspec.structs.replace(task, min_available=least_of(task, position)) if task.min_available is None else task
        for position, task in enumerate(job.spec.tasks)
    ]
    spec = msgspec.structs.replace(job.spec, tasks=tasks, min_available=written or known.get("", 0))
    return msgspec.structs.replace(job, spec=spec)


def patch(raw: Mapping[str, Any], before: Job, after: Job) -> list[Operation]:
    """Return the JSON patch operations that turn the raw object into the defaulted one."""
    operations = []
    old, new = before.spec, after.spec
    for field, was, is_ in (
        ("queue", old.queue, new.queue),
        ("schedulerName", old.scheduler_name, new.scheduler_name),
        ("maxRetry", old.max_retry, new.max_retry),
    ):
        if was != is_:
            operations.append(_add(f"/spec/{field}", is_))
    for position, (task, filled) in enumerate(zip(old.tasks, new.tasks, strict=True)):
        operations += _task_patch(position, task, filled)
    if old.min_available != new.min_available:
        operations.append(_add("/spec/minAvailable", new.min_available))
    if (raw.get("spec") or {}).get("plugins") is not None:
        missing = [name for name in new.plugins if name not in old.plugins]
        operations += [_add(f"/spec/plugins/{escaped(name)}", []) for name in missing]
    return operations


def _task_with_defaults(task: TaskSpec, position: int) -> TaskSpec:
    spec, template = task.pod_spec, task.template
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        # The only policy with which a pod on the host's network resolves the cluster's names.
        template = {**template, "spec": {**spec, "dnsPolicy": HOST_NETWORK_DNS}}
    return msgspec.structs.replace(
        task,
        name=task.name or naming.default_task(position),
        template=template,
        min_available=task.min_members,
        max_retry=task.max_retry or MAX_RETRY,
    )


def _task_patch(position: int, task: TaskSpec, filled: TaskSpec) -> list[Operation]:
    at = f"/spec/tasks/{position}"
    changed = {
        f"{at}/name": (task.name, filled.name),
        f"{at}/minAvailable": (task.min_available, filled.min_available),
        f"{at}/maxRetry": (task.max_retry, filled.max_retry),
    }
    operations = [_add(path, is_) for path, (was, is_) in changed.items() if was != is_]
    if filled.template != task.template:
        operations.append(_add(f"{at}/template/spec/dnsPolicy", HOST_NETWORK_DNS))
    return operations


def _add(path: str, value: object) -> Operation:
    # `add` replaces an existing value, such as an explicit empty string.
    return {"op": "add", "path": path, "value": value}


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
