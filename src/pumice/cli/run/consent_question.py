"""Asks the user for consent to what a job wants of this machine's files, or says how to give it."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.run.options import same_command
from pumice.engines.local.host_access.consent import ConsentError, remember_consent
from pumice.engines.local.state.settings import Settings
from pumice.model.text import escaped


def consent_question(error: ConsentError, settings: Settings, args: argparse.Namespace) -> bool:
    """Return the answer, and remember a yes. Without a terminal, the last line is the command to type.

    Raises RefusedError if it cannot be remembered.
    """
    print(error, file=sys.stderr)
    if args.file != "-" and not args.json and sys.stdin.isatty() and sys.stderr.isatty():
        print("Allow this for the jobs of this directory, now and later? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            remember_consent(error, settings)
            return True
    paths = dict.fromkeys(str(access.real) for access in error.accesses)
    print("to allow it, for this run:", file=sys.stderr)
    command = same_command(args, *(word for path in paths for word in ("--allow-host-path", path)))
    print(escaped(command), file=sys.stderr)
    return False
