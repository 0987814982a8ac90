"""`pumice run FILE`: runs a Job in sandboxes on this machine, with live logs and the Job's own exit code.

The process of the run loads the engine while this one loads what reads Job files: so no other module here loads that.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from pumice.cli.errors import print_error
from pumice.cli.run.options import add_arguments as add_arguments  # noqa: PLC0414 - a command has it
from pumice.cli.runs.arguments import open_announced
from pumice.client.run_options.table import check_foreground
from pumice.runtime.process_life import loading
from pumice.store.run_errors import RunError

if TYPE_CHECKING:
    from pumice.client.lease import CheckedRun


def run(args: argparse.Namespace) -> int:
    prepare_streams()
    if args.detach:
        from pumice.cli.run.request import check, submit

        checked: list[CheckedRun] = []
        return check(args, checked) or submit(args, checked)
    try:
        check_foreground(vars(args), "add -d, or use `pumice submit`")
        backend = open_announced(args)
        with backend.prepared_start() as start:
            with loading():
                from pumice.cli.run.request import run_in_foreground
            return run_in_foreground(args, backend, start)
    except RunError as error:
        print_error(error)
        return error.exit_code


def prepare_streams() -> None:
    """Replace characters that the terminal cannot show; wait for a reader that is slow."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        with suppress(OSError):
            # The stream may be shared with a caller that made it non-blocking.
            os.set_blocking(stream.fileno(), True)
