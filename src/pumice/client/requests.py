"""From a Job and keyword arguments to the request of a run, as `pumice run` makes it from a file and flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pumice.client import job_files
from pumice.client.loading import in_namespace, origin_of
from pumice.client.run_options.reading import read_options, with_arguments
from pumice.client.run_options.table import Options, read_values
from pumice.model.findings import InvalidJob
from pumice.model.job import Job, Manifest
from pumice.model.problem import Position, Problem
from pumice.runtime.offline_context import offline_context
from pumice.store.run_errors import InvalidOption
from pumice.store.run_request import RunRequest


def run_request(
    job: Job,
    options: Options,
    environ: Mapping[str, str] = os.environ,
    namespace: str = "",
    *,
    on_cluster: bool = False,
) -> RunRequest:
    """`namespace` is that of a Job without one. Raises InvalidJob and InvalidOption."""
    given: object = job
    if not isinstance(given, Job):
        hint = 'pumice.load("job.yaml") reads one from a file, pumice.job(...) makes one'
        raise InvalidOption(f"must be a Job, found {type(given).__name__}", hint, Position("job"))
    if namespace and job.namespace not in ("", namespace):
        hint = "use a client of that namespace, or of none"
        raise InvalidOption(f"{job.namespace}: the client is of namespace {namespace}", hint, Position("namespace"))
    origin = in_namespace(job, namespace) if namespace and not job.namespace else origin_of(job)
    namespace = job.namespace or namespace or "default"
    files = read_values({"with_": options.get("with_")}, Path(), environ).get("with_", ())
    more = [document for file in files for document in documents_of(file, namespace)]
    # Pods without an image get the Python of this program, if it has what the job needs.
    own = {**environ, "VIRTUAL_ENV": sys.prefix}
    plugins = tuple(origin.admitted.job.spec.plugins)
    run_options = read_options(options, origin.source.file or "-", plugins, own, on_cluster=on_cluster)
    return with_arguments(RunRequest(origin.admitted, run_options, [*origin.documents, *more], origin.source))


def documents_of(file: str, namespace: str) -> list[Manifest]:
    """Return the ConfigMaps, Secrets and claims of a file that a job of the namespace sees. Raises InvalidJob."""
    found = job_files.load(file, offline_context())
    if not found.is_good:
        raise InvalidJob([], found.problems)
    if found.jobs:
        line = found.jobs[0].document.line
        message = "with_ accepts ConfigMaps, Secrets and claims, not a Job"
        raise InvalidJob([], [Problem(message, "", Position(file, line))])
    return [document for document, own in job_files.documents(found) if own in ("", namespace)]
