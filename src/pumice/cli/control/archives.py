"""`pumice export RUN` packs a run into an archive; `pumice open FILE` stores it, to be shown like any other."""

from __future__ import annotations

import argparse
import os
import sys

from pumice.cli.errors import refuse
from pumice.cli.runs.arguments import RUN_OR_LAST, add_namespace, argument, chosen_run, run_command
from pumice.client.backend import Backend, Feature


@run_command(
    RUN_OR_LAST,
    argument("-o", "--output", metavar="FILE", help="the archive; default NAME-N.tar.gz, - is standard output"),
    argument("--no-logs", action="store_true", help="leave out what the pods printed"),
    add_namespace,
    waits=False,
    feature=Feature.EXPORT,
)
async def export(backend: Backend, args: argparse.Namespace) -> int:
    run = await chosen_run(backend, args.run)
    file = args.output or f"{str(run).replace(':', '-')}.tar.gz"
    if not args.no_logs:
        print("logs are packed as the programs wrote them; --no-logs leaves them out", file=sys.stderr)
    if file == "-" and sys.stdout.isatty():
        return refuse("the archive is not for a terminal", "-o FILE, or a pipe")
    if file == "-":
        await backend.export(run, sys.stdout.buffer, logs=not args.no_logs)
        return 0
    try:
        with open(file, "xb", opener=_open_private) as out:  # noqa: ASYNC230 - nothing else runs
            try:
                await backend.export(run, out, logs=not args.no_logs)
                out.flush()
            except BaseException:
                # A part would look like an archive.
                os.unlink(file)
                raise
    except FileExistsError:
        return refuse(f"{file}: exists already")
    except OSError as error:
        return refuse(f"{file}: {(error.strerror or str(error)).lower()}")
    print(file)
    return 0


def _open_private(path: str, flags: int) -> int:
    """Open a new file that is closed to other users, as the logs in the store are."""
    descriptor = os.open(path, flags, 0o600)
    # A umask may have taken away what the user needs.
    os.fchmod(descriptor, 0o600)
    return descriptor


@run_command(
    argument("file", metavar="FILE", help="an archive of `pumice export`; - is standard input"),
    add_namespace,
    waits=False,
    feature=Feature.OPEN,
)
async def open_(backend: Backend, args: argparse.Namespace) -> int:
    try:
        is_piped = args.file == "-"
        with open(sys.stdin.fileno() if is_piped else args.file, "rb", closefd=not is_piped) as archive:  # noqa: ASYNC230 - nothing else runs
            opened = await backend.open(archive, args.file)
    except OSError as error:
        return refuse(f"{args.file}: {(error.strerror or str(error)).lower()}")
    print(opened.run)
    if not opened.is_new:
        print("it was opened before", file=sys.stderr)
    elif not opened.has_logs:
        print("the archive has no logs", file=sys.stderr)
    return 0
