"""A slot: one place of a job that a pod fills, known before the pod exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pumice.model import naming
from pumice.model.job import Job, TaskSpec


@dataclass(frozen=True, slots=True)
class Slot:
    job: Job
    task: TaskSpec
    index: int

    @property
    def pod_name(self) -> str:
        return naming.pod(self.job.name, self.task.name, self.index)

    @property
    def short_name(self) -> str:
        """What people call it: `worker-1`."""
        return f"{self.task.name}-{self.index}"

    @property
    def hostname(self) -> str:
        return naming.hostname(self.job, self.task, self.index)

    @property
    def subdomain(self) -> str:
        return naming.subdomain(self.job, self.task)


def slots(job: Job) -> Iterator[Slot]:
    """All slots of a job, by task and index."""
    for task in job.spec.tasks:
        for index in range(task.replicas):
            yield Slot(job, task, index)
