"""Puts the arguments of a request into its Job; what cannot be done is an error with its line."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from pumice.client.backends import image_commands
from pumice.client.reports import Report
from pumice.model.findings import Finding
from pumice.model.problem import Position
from pumice.store.job_source import JobSource
from pumice.store.run_errors import InvalidOption
from pumice.store.run_request import RunRequest


def with_arguments(request: RunRequest) -> RunRequest:
    """Return the request with its arguments in its Job, and secret values in its variables. Raises InvalidOption."""
    options, job = request.options, request.job
    if not options.args:
        if options.args_for:
            hint = "write them after --, at the end of the command"
            raise InvalidOption("there are no arguments", hint, Position(option="args-for"))
        return request
    from pumice.admission.program_arguments import (  # noqa: PLC0415 - few runs have arguments
        add_program_arguments,
        read_arguments,
        with_first_containers,
    )

    found = read_arguments(options.args)
    changed = add_program_arguments(job.job, found.words, options.args_for, image_commands(options.settings))
    if changed.findings:
        raise InvalidOption.of([_report(each, request.source).problem for each in changed.findings])
    env, hidden = {**options.settings.env, **found.secrets}, (*options.settings.passed_on, *found.secrets)
    # On this machine, the record of the run hides them by their names.
    settings = replace(options.settings, env=env, **({"passed_on": hidden} if options.cluster is not None else {}))
    return msgspec.structs.replace(
        request,
        job=replace(job, job=changed.job, written=with_first_containers(job.written, changed.containers)),
        options=replace(options, args=found.shown, settings=settings),
    )


def _report(finding: Finding, source: JobSource) -> Report:
    """Return a finding with its line; one about a script with the line in the script."""
    line = source(finding.path).line
    if isinstance(finding.value, str) and source.text:
        lines = source.text.splitlines()
        same = (number for number in range(line - source.first, len(lines)) if finding.value in lines[number])
        line = source.first + next(same, line - source.first)
    return Report(
        severity=finding.severity,
        file=source.file,
        line=line,
        column=0,
        path=str(finding.path),
        value=finding.value,
        message=finding.message,
        hint=finding.hint,
    )
