"""The whole way of a document into the system: decoded, defaulted, checked; every finding at once.

Rules that look at one place run always. Rules that compare places run only if all of the document could be read, and
pods are made only of templates without errors, so that one mistake is not reported as three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.admission.amounts import MOST_PODS, check_least, check_relations
from pumice.admission.context import Context
from pumice.admission.defaults import with_defaults
from pumice.admission.dependencies import check_dependencies
from pumice.admission.names import check_longest, check_names, check_unique_tasks
from pumice.admission.plugins import check_companions, check_made_pods, check_plugins
from pumice.admission.podtemplate import check_template
from pumice.admission.policies import check_policies
from pumice.admission.portability import check_portability
from pumice.admission.queues import check_queue
from pumice.admission.topology import check_topology
from pumice.admission.volumes import check_volumes
from pumice.model.codec import decode
from pumice.model.findings import SPEC, Finding
from pumice.model.job import Job
from pumice.plugins.base import Base
from pumice.plugins.registry import Resolved

# What stands for the suffix that only the API server can make.
GENERATED_SUFFIX: Final = "xxxxx"


@dataclass(frozen=True, slots=True)
class Admitted:
    written: Job  # as decoded
    job: Job  # with defaults
    plugins: tuple[Base, ...]
    findings: tuple[Finding, ...]

    @property
    def is_good(self) -> bool:
        return not any(finding.is_error for finding in self.findings)


def admit(document: Mapping[str, Any], context: Context) -> Admitted:
    decoded = decode(document, context.kubernetes)
    written = _named(decoded.job)
    job = with_defaults(written, context.registry)
    resolved = context.registry.resolve(job.spec.plugins)
    findings = [*decoded.findings, *check_job(written, job, resolved, context)]
    if decoded.complete:
        findings += _check_together(job, resolved, context)
    if not any(finding.is_error for finding in findings):
        findings += check_made_pods(job, resolved.plugins)
    return Admitted(written, job, resolved.plugins, _once(findings))


def check_job(written: Job, job: Job, resolved: Resolved, context: Context) -> Iterator[Finding]:
    """Rules that look at one place each."""
    if not job.spec.tasks:
        yield Finding(SPEC / "tasks", "a job needs at least one task")
    yield from check_least(written)
    yield from check_names(job)
    yield from check_policies(job)
    yield from check_volumes(job, context.kubernetes)
    yield from resolved.findings
    for position, task in enumerate(job.spec.tasks):
        yield from check_template(task.template, SPEC / "tasks" / position / "template", context.kubernetes)
    if context.portable:
        yield from check_portability(job)


def _check_together(job: Job, resolved: Resolved, context: Context) -> Iterator[Finding]:
    """Rules that compare places."""
    yield from check_relations(job)
    yield from check_unique_tasks(job)
    yield from check_dependencies(job)
    yield from check_topology(job)
    yield from check_queue(job, context)
    # From here on names and lists are made, one entry a pod.
    if job.spec.tasks and job.total_replicas <= MOST_PODS:
        yield from check_longest(job)
        yield from check_plugins(job, resolved.plugins)
        yield from check_companions(job, resolved.plugins)


def _named(job: Job) -> Job:
    metadata = job.metadata
    if metadata.name or not metadata.generate_name:
        return job
    name = metadata.generate_name + GENERATED_SUFFIX
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(metadata, name=name))


def _once(findings: list[Finding]) -> tuple[Finding, ...]:
    """Two rules may find the same; it is said once."""
    unique = {(finding.path, finding.message): finding for finding in reversed(findings)}
    return tuple(reversed(unique.values()))
