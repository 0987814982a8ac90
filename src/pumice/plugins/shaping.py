"""Create pods: a bare pod passes through the plugins of its job in the registry's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pumice.model.bare_pod import bare_pod
from pumice.model.job import Job
from pumice.model.pod import Pod
from pumice.model.slot import Slot, slots
from pumice.plugins.base import Base


def pods(job: Job, plugins: Sequence[Base]) -> Iterator[Pod]:
    """Yield all pods of a job, by task and index."""
    return (shaped_pod(slot, plugins) for slot in slots(job))


def shaped_pod(slot: Slot, plugins: Sequence[Base]) -> Pod:
    pod = bare_pod(slot)
    for plugin in plugins:
        pod = plugin.shape_pod(pod, slot)
    return pod
