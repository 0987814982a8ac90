"""`pumice run FILE`: the job here and now, in sandboxes on this machine, with live logs and the job's own exit code."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from pumice.cli import run_settings
from pumice.cli.jobfile import JobDocument, JobFile
from pumice.cli.local_run import LocalRun
from pumice.cli.render import load_good
from pumice.cli.run_settings import RunOptions, SettingsError
from pumice.cli.run_view import JsonView, TextView, View
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.preflight import RefusedError
from pumice.model.findings import Path as FindingPath

add_arguments = run_settings.add_arguments
TIMED_OUT = 124
INTERRUPTED = 130
TERMINATED = 143


def run(args: argparse.Namespace) -> int:
    loaded = load_good(args.file)
    if loaded is None:
        return 2
    if len(loaded.jobs) != 1:
        print(f"{args.file}: has {len(loaded.jobs)} Jobs; exactly one can be run", file=sys.stderr)
        return 2
    try:
        options = run_settings.read_options(args)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    extra = [document for file in args.companions if (more := load_companions(file)) for document in more]
    entry = loaded.jobs[0]
    view: View = JsonView() if args.json else TextView(prefix=not args.no_prefix, locate=_locator(entry, args.file))
    documents = [document.value for document in loaded.companions] + extra
    locate = _locator(entry, args.file)
    try:
        return asyncio.run(_run(LocalRun(entry.admitted, options, documents, view, args.file, locate), options))
    except (RefusedError, ImageError) as error:
        print(error, file=sys.stderr)
        return 2


def load_companions(file: str) -> list[object]:
    from pumice.cli.jobfile import load, offline_context

    found: JobFile = load(file, offline_context())
    return [document.value for document in found.companions]


async def _run(job: LocalRun, options: RunOptions) -> int:
    loop = asyncio.get_running_loop()
    presses = 0
    ended_by = 0

    def stop(number: int) -> None:
        nonlocal presses, ended_by
        presses += 1
        ended_by = INTERRUPTED if number == signal.SIGINT else TERMINATED
        if presses == 1:
            job.stop_gracefully()
        else:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    task = asyncio.ensure_future(job.run())
    try:
        async with asyncio.timeout(options.timeout):
            code = await task
    except TimeoutError:
        print(f"the job took longer than --timeout {dt.timedelta(seconds=options.timeout or 0)}", file=sys.stderr)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return TIMED_OUT
    except asyncio.CancelledError:
        return ended_by or INTERRUPTED
    return ended_by or code


def _locator(entry: JobDocument, file: str) -> Callable[[str], str]:
    def locate(path: str) -> str:
        line, _ = entry.document.position(_parsed(path))
        return f"{path.removeprefix('spec.')}, {file}:{line}"

    return locate


def _parsed(path: str) -> FindingPath:
    steps: list[str | int] = []
    for part in path.split("."):
        name, *indexes = part.replace("]", "").split("[")
        steps += [name, *map(int, indexes)]
    return FindingPath(steps)
