"""`pumice submit FILE...`: starts Jobs that outlive the terminal. It is `pumice run -d` for several files."""

from __future__ import annotations

import argparse
import copy

from pumice.cli.run import request
from pumice.cli.run.command import prepare_streams
from pumice.cli.run.options import add_arguments as add_run_arguments
from pumice.client.lease import CheckedRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    file = next(action for action in parser._actions if action.dest == "file")  # noqa: SLF001 - argparse has no other way
    file.nargs = "+"
    file.help = "Job files, or - for standard input"


def run(args: argparse.Namespace) -> int:
    """Check all files before the first run is stored: a bad one starts nothing."""
    prepare_streams()
    checked: list[CheckedRun] = []
    codes = []
    for file in args.file:
        one = copy.copy(args)
        one.file, one.detach = file, True
        codes.append(request.check(one, checked))
    return max(codes) or request.submit(args, checked)
