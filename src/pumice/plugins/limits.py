"""Limits on the size of a job: variables that list all its hosts have a maximum length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from pumice.model.findings import Finding, Path
from pumice.model.job import Job

# Linux refuses a single variable of 128 KiB or more; this leaves room for what a program appends.
LONGEST_VARIABLE: Final = 100_000


def too_long(job: Job, at: Path, variable: str, length: Callable[[Job], int]) -> Iterator[Finding]:
    """Yield an error if a variable is too long for a process."""
    if length(job) > LONGEST_VARIABLE:
        fits = most_pods(job, lambda grown: length(grown) <= LONGEST_VARIABLE)
        yield Finding(
            at,
            f"{variable} would be longer than {LONGEST_VARIABLE // 1000} KB: {fits} pods fit, the job has "
            f"{job.total_replicas}",
            hint="use fewer pods, or shorter names for the job and its tasks",
        )


def most_pods(job: Job, fits: Callable[[Job], bool]) -> int:
    """Return the largest number of pods that fits if only the job's largest task shrinks."""
    position, largest = max(enumerate(job.spec.tasks), key=lambda item: item[1].replicas)
    low, high = 0, largest.replicas
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(_resized(job, position, middle)) else (low, middle - 1)
    return job.total_replicas - largest.replicas + low


def _resized(job: Job, position: int, replicas: int) -> Job:
    tasks = list(job.spec.tasks)
    tasks[position] = msgspec.structs.replace(tasks[position], replicas=replicas)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))
