"""Ranks: masters come first, in index order, then the workers.

One task may be both master and worker: then its index is its rank, and its pod 0 is the rendezvous.
"""

from __future__ import annotations

from pumice.model.job import Job
from pumice.model.slot import Slot


def rank(slot: Slot, master: str, worker: str) -> int | None:
    """Return the rank of a slot's pod, or None if its task has no ranks."""
    if slot.task.name == master:
        return slot.index
    if slot.task.name == worker:
        return replicas(slot.job, master) + slot.index
    return None


def world_size(job: Job, master: str, worker: str) -> int:
    return sum(replicas(job, name) for name in {master, worker})


def replicas(job: Job, name: str) -> int:
    task = job.task(name)
    return 0 if task is None else task.replicas
