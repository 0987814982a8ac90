"""Fields that only Pumice knows: Volcano's API server would drop them in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pumice.model.findings import SPEC, Finding, Path, warning
from pumice.model.job import Job, LifecyclePolicy


def check_portability(job: Job) -> Iterator[Finding]:
    for path in _own_fields(job):
        yield warning(path, "only Pumice knows this field; Volcano drops it in silence")


def _own_fields(job: Job) -> Iterator[Path]:
    if job.spec.active_deadline_seconds is not None:
        yield SPEC / "activeDeadlineSeconds"
    if job.spec.suspend is not None:
        yield SPEC / "suspend"
    yield from _in_policies(job.spec.policies, SPEC / "policies")
    for position, task in enumerate(job.spec.tasks):
        at = SPEC / "tasks" / position
        yield from _in_policies(task.policies, at / "policies")
        if task.max_restarts is not None:
            yield at / "maxRestarts"
        if task.depends_on is not None and task.depends_on.condition:
            yield at / "dependsOn" / "condition"


def _in_policies(policies: Sequence[LifecyclePolicy], at: Path) -> Iterator[Path]:
    for position, policy in enumerate(policies):
        if policy.exit_codes:
            yield at / position / "exitCodes"
