"""`pumice run FILE`: runs a Job in sandboxes on this machine, with live logs and the Job's own exit code."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pumice.cli.findings import write_reports
from pumice.cli.jobfile import load_valid
from pumice.cli.run import options as run_options
from pumice.cli.run.consent_question import consent_question
from pumice.cli.run.foreground import Foreground
from pumice.client.job_files import JobDocument, JobFile, load
from pumice.client.reports import counted
from pumice.client.view.output import fit, style_for
from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.engines.local.event_json import JsonView
from pumice.engines.local.events import Listener
from pumice.engines.local.host_access.consent import ConsentError
from pumice.engines.local.options import Locate
from pumice.engines.local.run_errors import DoesNotFit, NoNamespacesError, RunError
from pumice.engines.local.runs.run_request import JobSource, RunRequest
from pumice.engines.local.supervisor.supervisor_process import SupervisorProcess, forked_supervisor
from pumice.engines.local.verdict import verdict_lines
from pumice.model.job import Manifest
from pumice.runtime.offline_context import offline_context

if TYPE_CHECKING:
    from pumice.engines.local.supervisor.submit import CheckedRun

BAD_INPUT = 2
add_arguments = run_options.add_arguments


def run(args: argparse.Namespace) -> int:
    if args.hold and not args.detach:
        print("--hold: only for runs in the background\n  hint: add -d, or use `pumice submit`", file=sys.stderr)
        return BAD_INPUT
    if args.detach:
        checked: list[CheckedRun] = []
        return check(args, checked) or submit(checked)
    _prepare_streams()
    try:
        # It loads the engine while the Job file is read here.
        spare = [forked_supervisor()]
    except RunError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    try:
        return with_request(args, lambda request: _run(spare.pop() if spare else forked_supervisor(), request, args))
    finally:
        for process in spare:
            process.discard()


def with_request(args: argparse.Namespace, start: Callable[[RunRequest], int]) -> int:
    """Read the Job file and the options, and call `start`; once more if the user then gives consent."""
    read = _read_job(args)
    if read is None:
        return BAD_INPUT
    job, documents = read
    try:
        options = run_options.read_options(args, tuple(job.admitted.job.spec.plugins))
        found = job.document
        source = JobSource(args.file, found.marks, found.text, found.first)
        request = RunRequest(job.admitted, options, documents, source)
        try:
            return start(request)
        except ConsentError as error:
            return start(request) if consent_question(error, options.settings, args) else BAD_INPUT
    except NoNamespacesError as error:
        print(error, run_options.same_command(args, "--isolation", "process"), sep="\n", file=sys.stderr)
        return BAD_INPUT
    except DoesNotFit as error:
        lines = [fit(line, sys.stderr) for line in str(error).splitlines()]
        command = [run_options.same_command(args, "--fit")] if error.fit_helps else []
        print(*lines, *command, sep="\n", file=sys.stderr)
        return BAD_INPUT
    except RunError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _read_job(args: argparse.Namespace) -> tuple[JobDocument, list[Manifest]] | None:
    """Return the Job, and the documents that it may use. None, with the reason on stderr, if it cannot be run."""
    loaded = load_valid(args.file)
    if loaded is None:
        return None
    jobs = [each for each in loaded.jobs if args.job in (None, each.admitted.job.name)]
    if len(jobs) != 1:
        names = [each.admitted.job.name for each in loaded.jobs]
        print(
            f"{args.file}: contains {len(names)} Jobs; `pumice run` runs exactly one"
            if args.job is None
            else f"--job: {args.job}: {args.file} contains no such Job",
            f"  hint: --job {' or --job '.join(names)}",
            sep="\n",
            file=sys.stderr,
        )
        return None
    others = [_load_documents(file) for file in args.documents]
    if None in others:
        return None
    job = jobs[0]
    files = [file for file in (loaded, *others) if file is not None]
    namespace = job.admitted.written.namespace or "default"
    return job, [value for file in files for value in _documents(file, namespace)]


def _run(process: SupervisorProcess, request: RunRequest, args: argparse.Namespace) -> int:
    """Run the job in a process of its own, which ends with this one, and show it."""
    return asyncio.run(Foreground(_view(args, request.source), _close_lost).show(process, request))


def _close_lost(directory: str) -> None:
    """Close the record of a run whose process was killed."""
    from pumice.client.local_client import LocalClient

    LocalClient().close_killed(directory)


def check(args: argparse.Namespace, checked: list[CheckedRun]) -> int:
    """Check the run of a file as if it started now, and append it; return the exit code if it cannot be submitted."""
    from pumice.engines.local.supervisor.submit import check_run

    _prepare_streams()

    def start(request: RunRequest) -> int:
        checked.append(check_run(request, dt.datetime.now(dt.UTC)))
        return 0

    return with_request(args, start)


def submit(checked: Sequence[CheckedRun]) -> int:
    """Start runs in processes of their own, and print their names."""
    from pumice.cli.runs.arguments import print_notices
    from pumice.client.liveness import logout_warning
    from pumice.client.local_client import LocalClient
    from pumice.engines.local.supervisor.submit import store_run

    code = 0
    for each in checked:
        try:
            print(asyncio.run(store_run(each)))
        except RunError as error:
            print(error, file=sys.stderr)
            code = max(code, error.exit_code)
    print_notices(LocalClient())
    if warning := logout_warning():
        print(warning, file=sys.stderr)
    return code


def _load_documents(file: str) -> JobFile | None:
    """Load a file of `--with`. None, with the reason on stderr, if it has something that cannot be used."""
    found = load(file, offline_context())
    write_reports(found.reports, sys.stderr, style_for(sys.stderr))
    if found.reports:
        print(counted(found.reports), file=sys.stderr)
    if found.jobs:
        line = found.jobs[0].document.line
        print(f"{file}:{line}: --with accepts ConfigMaps, Secrets and claims, not a Job", file=sys.stderr)
    return None if found.jobs or not found.is_good else found


def _documents(file: JobFile, namespace: str) -> Iterator[Manifest]:
    """Yield the documents that the job would see on a cluster. One without a namespace gets the job's."""
    for document in file.extra_objects:
        value = document.value
        if not isinstance(value, dict):
            continue
        own = value["metadata"].get("namespace") or namespace
        if own == namespace:
            yield value
        else:
            name = f"{value['kind']} {value['metadata']['name']}"
            message = f"{name} is in namespace {own}, which a job of namespace {namespace} does not see"
            print(f"{document.file}:{document.line}: warning: {message}", file=sys.stderr)


def _view(args: argparse.Namespace, locate: Locate) -> Listener:
    next_step = partial(run_options.next_step, args, locate)
    if args.json:
        return JsonView(_write_out, lambda outcome: verdict_lines(outcome, locate, next_step(outcome)))
    times = _time_of_day if args.timestamps else None
    return TextView(Screen.of(sys.stdout, sys.stderr), locate, next_step, prefix=not args.no_prefix, timestamps=times)


def _time_of_day() -> str:
    now = dt.datetime.now(dt.UTC)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write_out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _prepare_streams() -> None:
    """Replace characters that the terminal cannot show; wait for a reader that is slow."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        with suppress(OSError):
            # The stream may be shared with a caller that made it non-blocking.
            os.set_blocking(stream.fileno(), True)
