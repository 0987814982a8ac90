"""What a change of sizes does not reach: the variables of pods that run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pumice.model.job import Job, scaled
from pumice.model.slot import Slot
from pumice.plugins.shaping import shaped_pod
from pumice.runtime.offline_context import offline_context


def changed_variables(job: Job, replicas: Mapping[str, int]) -> list[str]:
    """Return the variables that have other values in pods that start with these replicas, such as WORLD_SIZE."""
    larger = msgspec.structs.replace(job, spec=scaled(job.spec, replicas))
    changed: dict[str, None] = {}
    for task in job.spec.tasks:
        if task.replicas and replicas.get(task.name, task.replicas):
            before, after = _variables(job, task.name), _variables(larger, task.name)
            changed |= dict.fromkeys(name for name, value in after.items() if before.get(name) != value)
    return list(changed)


def _variables(job: Job, task: str) -> dict[str, str]:
    """Return the variables of the first pod of a task that have literal values."""
    spec = job.task(task)
    if spec is None:
        return {}
    pod = shaped_pod(Slot(job, spec, 0), offline_context().registry.resolve(job.spec.plugins).plugins)
    variables = (each for container in pod.containers for each in container.get("env") or ())
    return {each["name"]: each["value"] for each in variables if "value" in each}
