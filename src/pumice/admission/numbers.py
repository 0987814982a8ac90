"""Numbers of a Job: the minimum of each, and how they relate."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.model.duration import Duration, DurationError
from pumice.model.findings import SPEC, Finding, Path
from pumice.model.job import Job, JobSpec, TaskSpec
from pumice.model.slot import MOST_PODS


def check_least(job: Job) -> Iterator[Finding]:
    """Check the minimum of each number."""
    spec = job.spec
    yield from at_least(SPEC / "minAvailable", spec.min_available, 0)
    yield from at_least(SPEC / "maxRetry", spec.max_retry, 0)
    yield from at_least(SPEC / "ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0)
    yield from at_least(SPEC / "minSuccess", spec.min_success, 1)
    yield from at_least(SPEC / "activeDeadlineSeconds", spec.active_deadline_seconds, 1)
    # Check the duration: nothing uses it, but the API server refuses other values.
    if spec.running_estimate:
        try:
            Duration.parse(spec.running_estimate)
        except DurationError as error:
            yield Finding(SPEC / "runningEstimate", error.message, spec.running_estimate, error.hint)
    for position, task in enumerate(spec.tasks):
        at = SPEC / "tasks" / position
        yield from at_least(at / "replicas", task.replicas, 0)
        yield from at_least(at / "minAvailable", task.min_available, 0)
        yield from at_least(at / "maxRetry", task.max_retry, 0)
        yield from at_least(at / "maxRestarts", task.max_restarts, 0)


def check_relations(job: Job) -> Iterator[Finding]:
    """Check numbers against each other."""
    for position, task in enumerate(job.spec.tasks):
        least = task.min_available
        if least is not None and least > task.replicas >= 0 and not _follows_from_partitions(task):
            at, message = SPEC / "tasks" / position, f"must be at most {task.replicas}, the replicas of the task"
            yield Finding(at / "minAvailable", message, least, hint="raise replicas, or lower this")
    # A sum with a negative number is meaningless.
    if all(task.replicas >= 0 for task in job.spec.tasks):
        yield from _check_total(job.spec, job.total_replicas)


def _check_total(spec: JobSpec, total: int) -> Iterator[Finding]:
    if total > MOST_PODS:
        yield Finding(SPEC / "tasks", f"{total} pods in all: a job may have at most {MOST_PODS}")
    # If minAvailable is the sum over the tasks, then one task asks for more than its replicas, which is reported there.
    if spec.min_available > total and spec.min_available != sum(task.min_members for task in spec.tasks):
        yield Finding(
            SPEC / "minAvailable",
            f"must be at most {total}, all pods of the job, or it could never start",
            spec.min_available,
            hint="raise the replicas of a task, or lower this",
        )
    if spec.min_success is not None and spec.min_success > total:
        yield Finding(
            SPEC / "minSuccess",
            f"must be at most {total}, all pods of the job, or it could never complete",
            spec.min_success,
            hint="raise the replicas of a task, or lower this",
        )


def _follows_from_partitions(task: TaskSpec) -> bool:
    """Return whether minAvailable is the default from the partitions; if that is too much, they are wrong."""
    policy = task.partition_policy
    if policy is None or policy.min_partitions <= 0:
        return False
    return task.min_available == policy.min_partitions * policy.partition_size


def at_least(at: Path, value: int | None, least: int) -> Iterator[Finding]:
    """Check the minimum of a number, unless it is absent."""
    if value is not None and value < least:
        yield Finding(at, f"must be {least} or more", value)
