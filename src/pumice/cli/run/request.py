"""Reads the Job file and the options of `pumice run`, and shows the run, or starts it in the background."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from pumice.cli.errors import BAD_INPUT, agrees, print_error
from pumice.cli.jobfile import load_reported, load_valid
from pumice.cli.run import options as run_options
from pumice.cli.run.foreground import Foreground
from pumice.cli.run.script import ReadJob, is_script_file, read_script
from pumice.cli.runs.arguments import closing, finish, open_announced, open_chosen, print_lines, print_notices
from pumice.client import backends
from pumice.client.backend import Backend, RunRef
from pumice.client.job_files import JobFile
from pumice.client.lease import CheckedRun, Lease
from pumice.client.run_options.reading import with_arguments
from pumice.client.view.output import fit
from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.model.job import Manifest
from pumice.model.problem import FLAGS, Option
from pumice.model.text import escaped
from pumice.model.units import to_milliseconds
from pumice.store.event_json import JsonView
from pumice.store.events import Listener
from pumice.store.options import ClusterOptions, Interrupt, Locate
from pumice.store.run_errors import DoesNotFit, NameTakenError, RefusedError, RunError
from pumice.store.run_request import JobSource, RunRequest
from pumice.store.settings import ConsentError, Settings

_PATIENCE = 1.0  # seconds for a run that starts at once, until its ports are published
_POLL = 0.05


def run_in_foreground(args: argparse.Namespace, backend: Backend, start: Callable[[RunRequest], Lease]) -> int:
    """Run the job in a process of its own, which ends with this one, and show it."""
    on_interrupt = args.on_interrupt and Interrupt(args.on_interrupt)

    def show(request: RunRequest) -> int:
        view = _view(args, request.source, on_cluster=backend.waits)
        foreground = Foreground(backend, start(request), view, on_interrupt)
        return asyncio.run(closing(backend, foreground.show()))

    return with_request(args, backend, show)


def with_request(args: argparse.Namespace, backend: Backend, start: Callable[[RunRequest], int]) -> int:
    """Read the Job file and the options, and call `start`; once more if the user then gives consent."""
    try:
        of_script = is_script_file(args, on_cluster=backend.waits)
        read = read_script(args) if of_script else _read_job(args)
        if read is None or (others := [_load_documents(file) for file in args.with_ or ()]).count(None):
            return BAD_INPUT
        admitted, source, own = read
        namespace = args.namespace or admitted.written.namespace or backend.default_namespace
        documents = [value for file in (*own, *others) if file is not None for value in _documents(file, namespace)]
        plugins = tuple(admitted.job.spec.plugins)
        options = run_options.read_options(args, plugins, on_cluster=backend.waits, of_script=of_script)
        options = run_options.with_code_of(admitted.written, options)
        request = with_arguments(RunRequest(admitted, options, documents, source))
        try:
            return start(request)
        except ConsentError as error:
            return start(request) if _ask_consent(error, request.options.settings, args) else BAD_INPUT
        except NameTakenError as error:
            return start(_replacing(request, error.uid)) if _ask_replacement(error, args) else BAD_INPUT
    except RunError as error:
        text = error.text(FLAGS)
        print(fit(text, sys.stderr) if isinstance(error, DoesNotFit) else text, file=sys.stderr)
        if isinstance(error, RefusedError) and error.remedy is not None:
            print(run_options.typed_again(args, error.remedy, whole=True), file=sys.stderr)
        return error.exit_code


def _ask_consent(error: ConsentError, settings: Settings, args: argparse.Namespace) -> bool:
    """Return the answer, and remember a yes. Without a terminal, the last line is the command to type.

    Raises RefusedError if it cannot be remembered.
    """
    print_error(error)
    if _can_ask(args) and agrees("Allow this for the jobs of this directory, now and later?"):
        backends.remember_consent(error, settings)
        return True
    print("to allow it, for this run:", file=sys.stderr)
    if error.remedy is not None:
        print(run_options.typed_again(args, error.remedy, whole=True), file=sys.stderr)
    return False


def _ask_replacement(error: NameTakenError, args: argparse.Namespace) -> bool:
    """Ask whether a finished Job of a cluster is to be replaced.

    Without a terminal, and while that Job runs, the last lines are commands to type.
    """
    print(escaped(error.problem.message), file=sys.stderr)
    if error.needed and _can_ask(args) and agrees("Delete that Job and create this one?"):
        return True
    if error.needed:
        again = run_options.typed_again(args, *error.needed, whole=True)
        print("to replace it:", again, sep="\n", file=sys.stderr)
    if error.free:
        again = run_options.typed_again(args, Option("name", error.free), whole=True)
        print("under another name:", again, sep="\n", file=sys.stderr)
    return False


def _can_ask(args: argparse.Namespace) -> bool:
    return args.file != "-" and not args.json and sys.stdin.isatty() and sys.stderr.isatty()


def _replacing(request: RunRequest, uid: str) -> RunRequest:
    """Return a request that replaces this finished Job, whatever it owns and whoever submitted it, and no other."""
    cluster = request.options.cluster or ClusterOptions()
    cluster = replace(cluster, replace=True, replaced_uid=uid, delete_claims=True, yes=True)
    return replace(request, options=replace(request.options, cluster=cluster))


def _read_job(args: argparse.Namespace) -> ReadJob | None:
    """Return the Job of a file, and the file. None, with the reason on stderr, if it cannot be run."""
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
    found = jobs[0].document
    return jobs[0].admitted, JobSource(args.file, found.marks, found.text, found.first), [loaded]


def check(args: argparse.Namespace, checked: list[CheckedRun]) -> int:
    """Check the run of a file as if it started now, and append it; return the exit code if it cannot be submitted."""
    try:
        backend = open_announced(args)
    except RunError as error:
        print_error(error)
        return error.exit_code

    def start(request: RunRequest) -> int:
        checked.append(finish(closing(backend, backend.check(request)), waits=backend.waits))
        return 0

    return with_request(args, backend, start)


def submit(args: argparse.Namespace, checked: Sequence[CheckedRun]) -> int:
    """Start runs in processes of their own, and print their names."""
    backend = open_chosen(args)
    code = asyncio.run(closing(backend, _submit(backend, checked)))
    print_notices()
    print_lines(backend.warnings(submitted=True))
    return code


async def _submit(backend: Backend, checked: Sequence[CheckedRun]) -> int:
    code = 0
    for each in checked:
        try:
            if each.note:
                print(each.note, file=sys.stderr, flush=True)
            run = await backend.submit(each)
            if where := backend.location(run):
                print_lines([f"{run} on {where}: submitted"])
            print(run, flush=True)
            if ports := len(each.request.options.publish):
                print(*await _published_lines(backend, run, ports), sep="\n", file=sys.stderr)
        except RunError as error:
            print_error(error)
            code = max(code, error.exit_code)
    return code


async def _published_lines(backend: Backend, run: RunRef, ports: int) -> list[str]:
    """Return the addresses of so many ports. A run that waits for its start has none yet: say what shows them."""
    deadline = time.monotonic() + _PATIENCE
    status = (await backend.history(run)).status
    while len(status.published) < ports and time.monotonic() < deadline:
        if status.held is not None or status.finished is not None or status.needs_resume:
            break
        await asyncio.sleep(_POLL)
        status = (await backend.history(run)).status
    if not status.published:
        return [f"{run}: `pumice ps -o wide` shows where its ports are published, once it runs"]
    return [f"{run}: {each.text}" for each in status.published]


def _load_documents(file: str) -> JobFile | None:
    """Load a file of `--with`. None, with the reason on stderr, if it has something that cannot be used."""
    found = load_reported(file)
    if found.jobs:
        line = found.jobs[0].document.line
        print(f"{file}:{line}: --with accepts ConfigMaps, Secrets and claims, not a Job", file=sys.stderr)
    return None if found.jobs or not found.is_good else found


def _documents(file: JobFile, namespace: str) -> Iterator[Manifest]:
    """Yield the documents that the job would see on a cluster. One without a namespace gets the job's."""
    for document in file.extra_objects:
        value = document.value
        if isinstance(value, dict) and value["metadata"].get("namespace") in (None, "", namespace):
            yield value
        elif isinstance(value, dict):
            name, other = f"{value['kind']} {value['metadata']['name']}", value["metadata"]["namespace"]
            message = f"{name} is in namespace {other}, which a job of namespace {namespace} does not see"
            print(f"{document.file}:{document.line}: warning: {message}", file=sys.stderr)


def _view(args: argparse.Namespace, locate: Locate, *, on_cluster: bool) -> Listener:
    local = partial(run_options.next_step, args, locate)
    next_step = partial(run_options.next_on_cluster, args) if on_cluster else local
    if args.json:
        return JsonView(lambda text: print(text, end="", flush=True), next_step)
    times = (lambda: to_milliseconds(dt.datetime.now(dt.UTC))) if args.timestamps else None
    return TextView(Screen.of(sys.stdout, sys.stderr), locate, next_step, prefix=not args.no_prefix, timestamps=times)
