"""`pumice open FILE`: stores the run of an archive, so that it can be shown like a run of this machine."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.runs.arguments import BAD_INPUT, RunCommand, add_namespace
from pumice.client.backend import Backend, Feature


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="an archive of `pumice export`; - is standard input")
    add_namespace(parser)


async def _open(backend: Backend, args: argparse.Namespace) -> int:
    try:
        is_piped = args.file == "-"
        with open(sys.stdin.fileno() if is_piped else args.file, "rb", closefd=not is_piped) as archive:  # noqa: ASYNC230 - nothing else runs
            opened = await backend.open(archive, args.file)
    except OSError as error:
        print(f"{args.file}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return BAD_INPUT
    print(opened.run)
    if not opened.is_new:
        print("it was opened before", file=sys.stderr)
    elif not opened.has_logs:
        print("the archive has no logs", file=sys.stderr)
    return 0


open_ = RunCommand(add_arguments, _open, waits=lambda _args: False, feature=Feature.OPEN)
