"""Jobs from files, for programs: `load` and `load_all`; and what a run needs to know about the file of its Job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.admit import Admitted, admit
from pumice.client import job_files
from pumice.client.job_files import NO_JOB, Report
from pumice.model.findings import InvalidJob
from pumice.model.job import Job, Manifest
from pumice.model.problem import Position, Problem
from pumice.runtime.offline_context import offline_context
from pumice.store.job_source import JobSource

_ORIGIN: Final = "pumice.client.loading"


class Origin(Struct, frozen=True):
    """Where a Job came from."""

    admitted: Admitted
    source: JobSource
    documents: Sequence[Manifest] = ()  # ConfigMaps, Secrets and claims of the same file
    content: object = None  # of the Job, to notice that a list or a mapping of it was changed
    warnings: Sequence[Report] = ()


def load(file: str | os.PathLike[str]) -> Job:
    """Return the one Job of a file. Raises InvalidJob with all findings; also if the file has several Jobs."""
    jobs = load_all(file)
    if len(jobs) > 1:
        names = ", ".join(job.name for job in jobs)
        problem = Problem(f"contains {len(jobs)} Jobs: {names}", "load_all returns all of them", Position(str(file)))
        raise InvalidJob([], [problem])
    return jobs[0]


def load_all(file: str | os.PathLike[str]) -> list[Job]:
    """Return the Jobs of a file, at least one. Raises InvalidJob with all findings."""
    found = job_files.load(os.fspath(file), offline_context())
    if not found.is_good:
        findings = [finding for each in found.jobs for finding in each.admitted.findings]
        raise InvalidJob(findings, found.problems)
    if not found.jobs:
        raise InvalidJob([], [Problem(NO_JOB, "", Position(os.fspath(file)))])
    warnings = [report for report in found.reports if not report.is_error]
    jobs = []
    for each in found.jobs:
        # A copy: what is remembered about it must not be attached to a value that others hold.
        job = msgspec.structs.replace(each.admitted.written)
        namespaces = ("", job.namespace or "default")
        documents = [document for document, namespace in job_files.documents(found) if namespace in namespaces]
        source = JobSource(found.name, each.document.marks, each.document.text, each.document.first)
        job.attached[_ORIGIN] = Origin(each.admitted, source, documents, _content(job), warnings)
        jobs.append(job)
    return jobs


def origin_of(job: Job) -> Origin:
    """Return where a Job came from, and its admission. Raises InvalidJob.

    A Job is frozen, but its lists and mappings are not: one that was changed is admitted again, and so is a copy.
    """
    origin: Origin | None = job.attached.get(_ORIGIN)
    if origin is None:
        origin = job.attached[_ORIGIN] = _admitted(job)
    if origin.content == _content(job):
        return origin
    return replace(_admitted(job), source=JobSource(origin.source.file), documents=origin.documents)


def in_namespace(job: Job, namespace: str) -> Origin:
    """Return the same for a Job that gets its namespace from a client. Raises InvalidJob."""
    origin = origin_of(job)
    metadata = msgspec.structs.replace(job.metadata, namespace=namespace)
    return replace(origin, admitted=_admitted(msgspec.structs.replace(job, metadata=metadata)).admitted)


def _admitted(job: Job) -> Origin:
    content = _content(job)
    # A copy, because what is admitted keeps parts of it.
    found = admit(_content(job), offline_context())
    if not found.is_good:
        raise InvalidJob(found.findings)
    return Origin(found, JobSource(), content=content, warnings=[Report.at(each) for each in found.findings])


def _content(job: Job) -> dict[str, Any]:
    """Return a Job as plain data, which shares nothing with it. Raises InvalidJob."""
    try:
        content: dict[str, Any] = msgspec.to_builtins(job)
    except TypeError as error:
        raise InvalidJob(
            [], [Problem(f"{job.name}: {error}", "a Job has what YAML has: texts, numbers, ...")]
        ) from error
    return content
