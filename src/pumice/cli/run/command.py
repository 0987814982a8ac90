"""`pumice run FILE`: runs a Job in sandboxes on this machine, with live logs and the Job's own exit code."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pumice.cli.findings import counted, write_reports
from pumice.cli.jobfile import JobDocument, JobFile, load, load_valid
from pumice.cli.output import fit, style_for
from pumice.cli.run import options as run_options
from pumice.cli.run.consent_question import consent_question
from pumice.cli.run.screen import Screen
from pumice.cli.run.text_view import TextView
from pumice.engines.local.event_json import JsonView
from pumice.engines.local.events import Listener, RunEvent, RunPlanned, WarningIssued
from pumice.engines.local.host_access.consent import ConsentError
from pumice.engines.local.options import Locate
from pumice.engines.local.outcome import BROKEN_PIPE, HUNG_UP, INTERRUPTED, TERMINATED, Stop
from pumice.engines.local.run_errors import DoesNotFitError, NoNamespacesError, RunError
from pumice.engines.local.runs.run_request import JobSource, RunRequest
from pumice.engines.local.session import LocalSession
from pumice.engines.local.supervisor.control_server import run_with_control
from pumice.engines.local.verdict import verdict_lines
from pumice.model.job import Manifest
from pumice.runtime.offline_context import offline_context
from pumice.runtime.once import Once

BAD_INPUT = 2
_BUSY = 0.5  # seconds that a large job may keep the event loop busy
add_arguments = run_options.add_arguments


def run(args: argparse.Namespace) -> int:
    detached = args.detach
    _prepare_streams()
    return with_request(args, lambda request: _submit(request) if detached else _run(request, args))


def with_request(args: argparse.Namespace, start: Callable[[RunRequest], int]) -> int:
    """Read the Job file and the options, and call `start`; after a question of consent once more."""
    read = _read_job(args)
    if read is None:
        return BAD_INPUT
    job, documents = read
    try:
        options = run_options.read_options(args, tuple(job.admitted.job.spec.plugins))
        request = RunRequest(job.admitted, options, documents, JobSource(args.file, job.document.marks))
        try:
            return start(request)
        except ConsentError as error:
            return start(request) if consent_question(error, options.settings, args) else BAD_INPUT
    except NoNamespacesError as error:
        print(error, run_options.same_command(args, "--isolation", "process"), sep="\n", file=sys.stderr)
        return BAD_INPUT
    except DoesNotFitError as error:
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


def _run(request: RunRequest, args: argparse.Namespace) -> int:
    session = LocalSession(request.job, request.options, request.documents, request.source)
    return asyncio.run(_Driver(session, _view(args, request.source)).run())


def _submit(request: RunRequest) -> int:
    """Start the run in a process of its own, and print its name."""
    from pumice.client.local_client import LocalClient

    print(LocalClient().submit(request))
    return 0


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


@dataclass(slots=True)
class _Driver:
    """Shows the run, and stops it on signals and when its output is lost."""

    session: LocalSession
    view: Listener
    _unhandled: float | None = None  # since when a signal waits for the event loop
    _warnings: Once = field(default_factory=Once)

    async def run(self) -> int:
        # With SIGCHLD ignored, which a caller may have set, the exit codes of children are lost.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not _is_ignored(signal.SIGINT):
            # The preparation does not let the event loop handle anything: interrupt it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: self._warn(context))
        outcome = await run_with_control(self.session, self._show)
        return outcome.exit_code

    def _show(self, event: RunEvent) -> None:
        try:
            self.view(event)
        except OSError as error:
            self.view = lambda _event: None
            self.session.stop(_output_lost(error))
        if isinstance(event, RunPlanned):
            self._handle_signals()

    def _handle_signals(self) -> None:
        """A signal that the caller ignores stays ignored: SIGHUP by nohup, SIGINT by a shell for its background."""
        stops = {
            signal.SIGINT: Stop(INTERRUPTED, "Interrupted"),
            signal.SIGTERM: Stop(TERMINATED, "Terminated"),
            signal.SIGHUP: Stop(HUNG_UP, "HungUp"),
        }
        for number, stop in stops.items():
            if number == signal.SIGTERM or not _is_ignored(number):
                self._handle(number, stop)

    def _handle(self, number: signal.Signals, stop: Stop) -> None:
        """Handle a signal in the event loop, and beside it: the loop may block while it writes our output."""

        def notice(_number: int, _frame: object) -> None:
            if self._unhandled is None:
                self._unhandled = time.monotonic()
            elif time.monotonic() - self._unhandled > _BUSY:
                # The second signal: end at once. The sandbox ends with this process.
                os._exit(stop.code)

        asyncio.get_running_loop().add_signal_handler(number, self._stop, stop)
        signal.signal(number, notice)

    def _stop(self, stop: Stop) -> None:
        """Stop gracefully at the first signal, at once at the second."""
        self._unhandled = None
        if not self.session.stop(stop):
            self.session.stop(stop, force=True)

    def _warn(self, context: Mapping[str, Any]) -> None:
        """Show in one line what asyncio reports, such as a connection that it could not accept."""
        error = context.get("exception")
        why = error.strerror if isinstance(error, OSError) else repr(error)
        message = str(context["message"]).lower() + (f": {why}" if error is not None else "")
        if self._warnings.first(message):
            self._show(WarningIssued(message))


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _output_lost(error: OSError) -> Stop:
    """The reader of our output has closed it, or the disk is full: stop the job."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Python would report it again when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if not isinstance(error, BrokenPipeError):
        with suppress(OSError):
            print(f"output: {(error.strerror or str(error)).lower()}; the job is stopped", file=sys.stderr)
    return Stop(BROKEN_PIPE if isinstance(error, BrokenPipeError) else 1, "OutputClosed")
