"""`pumice export RUN`: packs a run into an archive."""

from __future__ import annotations

import argparse
import os
import sys

from pumice.cli.runs.arguments import BAD_INPUT, RUN_HELP, RunCommand, add_namespace, chosen_run
from pumice.client.backend import Backend, Feature


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default @last")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the archive; default NAME-N.tar.gz, - is standard output"
    )
    parser.add_argument("--no-logs", action="store_true", help="leave out what the pods printed")
    add_namespace(parser)


async def _export(backend: Backend, args: argparse.Namespace) -> int:
    run = await chosen_run(backend, args.run)
    file = args.output or f"{str(run).replace(':', '-')}.tar.gz"
    if not args.no_logs:
        print("logs are packed as the programs wrote them; --no-logs leaves them out", file=sys.stderr)
    if file == "-" and sys.stdout.isatty():
        print("the archive is not for a terminal\n  hint: -o FILE, or a pipe", file=sys.stderr)
        return BAD_INPUT
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
        print(f"{file}: exists already", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        print(f"{file}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return BAD_INPUT
    print(file)
    return 0


export = RunCommand(add_arguments, _export, waits=lambda _args: False, feature=Feature.EXPORT)


def _open_private(path: str, flags: int) -> int:
    """Open a new file that is closed to other users, as the logs in the store are."""
    descriptor = os.open(path, flags, 0o600)
    # A umask may have taken away what the user needs.
    os.fchmod(descriptor, 0o600)
    return descriptor
