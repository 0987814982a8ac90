"""Slots, the positions of a job that pods fill, and sets of their indexes.

A set of indexes is written as ranges (`0-2,5`), so that 10,000 pods take a few characters in a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from pumice.model import naming
from pumice.model.job import Job, TaskSpec

# The most pods that Kubernetes supports in a cluster.
MOST_PODS: Final = 150_000


class Slot(Struct, frozen=True):
    job: Job
    task: TaskSpec
    index: int

    @property
    def pod_name(self) -> str:
        return naming.pod(self.job.name, self.task.name, self.index)

    @property
    def short_name(self) -> str:
        """Return the name for messages and flags: `worker-1`."""
        return f"{self.task.name}-{self.index}"

    @property
    def hostname(self) -> str:
        return naming.hostname(self.job, self.task, self.index)

    @property
    def subdomain(self) -> str:
        return naming.subdomain(self.job, self.task)


def slots(job: Job) -> Iterator[Slot]:
    """Yield all slots of a job, by task and index: no more than a cluster can have, whatever a client has written."""
    room = MOST_PODS
    for task in job.spec.tasks:
        for index in range(min(task.replicas, room)):
            yield Slot(job, task, index)
        room -= min(task.replicas, room)


Indexes = frozenset[int]
NONE: Indexes = frozenset()


def write_indexes(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def read_indexes(text: str, below: int = MOST_PODS) -> Indexes:
    """Parse the output of `write_indexes`. Untrusted text is read up to the first error."""
    found: set[int] = set()
    least = 0
    for part in text.split(","):
        written = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        first = int(written[1]) if written is not None else below
        if written is None or not least <= first < below:
            # Ranges must be in order, so that a long text cannot make this count the same indexes many times.
            break
        least = min(int(written[2] or first) + 1, below)
        found.update(range(first, least))
    return frozenset(found)
