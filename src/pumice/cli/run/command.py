"""`pumice run FILE`: the job here and now, in sandboxes on this machine, with live logs and the job's own exit code."""

from __future__ import annotations

import argparse
import asyncio
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
from pumice.cli.output import style_for
from pumice.cli.run import options as run_options
from pumice.cli.run.screen import Screen
from pumice.cli.run.text_view import TextView
from pumice.engines.local.event_json import JsonView
from pumice.engines.local.events import Listener, Teller
from pumice.engines.local.options import SettingsError
from pumice.engines.local.outcome import BROKEN_PIPE, HUNG_UP, INTERRUPTED, TERMINATED, TIMED_OUT, Stop
from pumice.engines.local.preflight import RefusedError
from pumice.engines.local.session import LocalRun, Request
from pumice.model.findings import Path as FindingPath
from pumice.model.job import Manifest
from pumice.runtime.offline_context import offline_context

BAD_INPUT = 2
_PATIENCE = 30.0  # seconds for what follows the grace of the pods
_BUSY = 0.5  # seconds that a large job may keep the loop busy
add_arguments = run_options.add_arguments


def run(args: argparse.Namespace) -> int:
    loaded = load_valid(args.file)
    if loaded is None:
        return BAD_INPUT
    if len(loaded.jobs) != 1:
        print(f"{args.file}: has {len(loaded.jobs)} Jobs; exactly one can be run", file=sys.stderr)
        return BAD_INPUT
    others = [_load_companions(file) for file in args.companions]
    if None in others:
        return BAD_INPUT
    _prepare_streams()
    entry = loaded.jobs[0]
    files = [file for file in (loaded, *others) if file is not None]
    documents = [value for file in files for value in _companions(file, entry.admitted.written.namespace or "default")]
    try:
        options = run_options.read_options(args)
        request = Request(
            admitted=entry.admitted,
            options=options,
            documents=documents,
            file=args.file,
            locate=_locator(entry, args.file),
            again=partial(run_options.typed_again, args),
        )
        job = LocalRun(request, Teller([_view(args, request)]))
        with job.prepared():
            if job.tell.lost is not None:
                return _output_lost(job.tell.lost).code
            return asyncio.run(_Driver(job).drive(options.timeout, args.timeout or ""))
    except (SettingsError, RefusedError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT


def _load_companions(file: str) -> JobFile | None:
    """A file of `--with`; None, and told why, if it holds anything that cannot be used."""
    found = load(file, offline_context())
    write_reports(found.reports, sys.stderr, style_for(sys.stderr))
    if found.reports:
        print(counted(found.reports), file=sys.stderr)
    if found.jobs:
        line = found.jobs[0].document.line
        print(f"{file}:{line}: a Job is not for --with, which takes what a Job uses", file=sys.stderr)
    return None if found.jobs or not found.is_good else found


def _companions(file: JobFile, namespace: str) -> Iterator[Manifest]:
    """Those that the job would find on a cluster. One without a namespace goes where the job goes."""
    for document in file.extra_objects:
        value = document.value
        if not isinstance(value, dict):
            continue
        place = value["metadata"].get("namespace") or namespace
        if place == namespace:
            yield value
        else:
            name = f"{value['kind']} {value['metadata']['name']}"
            told = f"{name} is in namespace {place}, where a job of namespace {namespace} does not see it"
            print(f"{document.file}:{document.line}: warning: {told}", file=sys.stderr)


def _view(args: argparse.Namespace, request: Request) -> Listener:
    if args.json:
        return JsonView(_write_out)
    return TextView(Screen.of(sys.stdout, sys.stderr), request.locate, prefix=not args.no_prefix)


def _write_out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _prepare_streams() -> None:
    """A terminal that cannot show a character of a log shows another one; one that is slow is waited for."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        with suppress(OSError):
            # Whoever started us may share the stream, and may have made it one that does not wait.
            os.set_blocking(stream.fileno(), True)


@dataclass(slots=True)
class _Driver:
    """Runs the job until it ends, or is told to: by keys, by signals, by the clock, or by output that leads nowhere."""

    job: LocalRun
    _task: asyncio.Future[int] = field(init=False)
    _code: int = INTERRUPTED
    _unheard: float | None = None  # since when a signal waits for the loop

    async def drive(self, timeout: float | None, told: str) -> int:  # noqa: ASYNC109 - the job ends gracefully then
        loop = asyncio.get_running_loop()
        self.job.tell.failed = self._output_failed
        # Who ignores it, as some that start us do, never learns how a child has ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        loop.set_exception_handler(lambda _loop, about: self.job.tell.warn(_about(about)))
        self._task = asyncio.ensure_future(self.job.run())
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            # A shell without job control starts programs in the background so: Ctrl-C is for others.
            self._listen(signal.SIGINT, Stop(INTERRUPTED, "Interrupted"))
        self._listen(signal.SIGTERM, Stop(TERMINATED, "Terminated"))
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            # The terminal is gone. With nohup the job goes on without it.
            self._listen(signal.SIGHUP, Stop(HUNG_UP, "HungUp"))
        if timeout is not None:
            why = Stop(TIMED_OUT, "Timeout", f"{self.job.job.name} took longer than --timeout {told} and was ended")
            loop.call_later(timeout, self._expire, why)
        try:
            return await self._task
        except asyncio.CancelledError:
            self.job.was_killed(self._code)
            return self._code

    def _listen(self, number: signal.Signals, stop: Stop) -> None:
        """By the loop; and beside it, because the loop hears nothing while it waits for somebody to read our output."""

        def notice(_number: int, _frame: object) -> None:
            if self._unheard is None:
                self._unheard = time.monotonic()
            elif time.monotonic() - self._unheard > _BUSY:
                # Once more: at once. Whatever is left of the job ends with this process.
                os._exit(stop.code)

        asyncio.get_running_loop().add_signal_handler(number, self._stop, stop)
        signal.signal(number, notice)

    def _stop(self, stop: Stop) -> None:
        """Once: gracefully. Once more: at once. When all is over: too late."""
        self._unheard = None
        if not self._task.done() and not self.job.stop(stop):
            self._code = stop.code
            self._task.cancel()

    def _expire(self, stop: Stop) -> None:
        """Gracefully, and without grace if that comes to nothing: nobody may be there to press a key."""
        self.job.stop(stop)
        self._code = stop.code
        asyncio.get_running_loop().call_later(self.job.longest_grace + _PATIENCE, self._task.cancel)

    def _output_failed(self, error: OSError) -> None:
        self.job.stop(_output_lost(error))


def _about(happened: Mapping[str, Any]) -> str:
    """What asyncio tells of itself, such as that it could not accept a connection: in a line, without a traceback."""
    error = happened.get("exception")
    why = error.strerror if isinstance(error, OSError) else repr(error)
    return str(happened["message"]).lower() + (f": {why}" if error is not None else "")


def _output_lost(error: OSError) -> Stop:
    """Whoever read our output has seen enough, or there is no room for it: then nobody wants the job either."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Python would complain once more when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if not isinstance(error, BrokenPipeError):
        with suppress(OSError):
            print(f"output: {(error.strerror or str(error)).lower()}; the job is ended", file=sys.stderr)
    return Stop(BROKEN_PIPE if isinstance(error, BrokenPipeError) else 1, "OutputClosed")


def _locator(entry: JobDocument, file: str) -> Callable[[str], str]:
    def locate(path: str) -> str:
        line, _ = entry.document.position(_parsed(path))
        return f"{file}:{line}"

    return locate


def _parsed(path: str) -> FindingPath:
    steps: list[str | int] = []
    for part in filter(None, path.split(".")):
        name, *indexes = part.replace("]", "").split("[")
        steps += [name, *map(int, indexes)]
    return FindingPath(steps)
