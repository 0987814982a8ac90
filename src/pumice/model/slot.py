"""A slot: one place of a job that a pod fills, known before the pod exists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

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


Indexes = frozenset[int]
NONE: Indexes = frozenset()
# The largest number of pods that a Kubernetes cluster is built for; beyond it a number is a slip of the finger.
MOST_PODS: Final = 150_000
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def write_indexes(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def read_indexes(text: str, below: int = MOST_PODS) -> Indexes:
    """What `write_indexes` wrote, and of what anybody else may have written there as much as makes sense."""
    found: set[int] = set()
    least = 0
    for part in text.split(","):
        written = _RANGE.fullmatch(part)
        first = int(written[1]) if written is not None else below
        if written is None or not least <= first < below:
            # Ranges rise, so that nobody can make us count the same ones over and over.
            break
        least = min(int(written[2] or first) + 1, below)
        found.update(range(first, least))
    return frozenset(found)
