"""`pumice why [RUN]`: says why a run waits, or why it failed."""

from __future__ import annotations

import argparse

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, add_output, chosen_run, client_of, guarded, print_data
from pumice.client.local_client import why_text
from pumice.client.values import RunSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default @last")
    add_namespace(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _why(args))


def _why(args: argparse.Namespace) -> int:
    client = client_of(args)
    stored = chosen_run(client, args.run)
    found = client.summary(stored)
    if (waits := client.why(stored)) is not None:
        print_data(waits, args.output) if args.output else print(f"{found.run} waits: {why_text(waits)}")
        return 0
    if args.output:
        data = {"run": found.run, "code": code(found), "since": found.finished or found.started or found.created}
        print_data({**data, "phase": found.phase, "message": "\n".join(found.verdict) or found.note}, args.output)
    elif found.verdict:
        print("\n".join(found.verdict))
    else:
        print(f"{found.run} {found.phase}{f': {found.note}' if found.note else ''}")
    return 0


def code(found: RunSummary) -> str:
    if found.is_finished:
        return "Completed" if found.succeeded else "Stopped" if found.stopped else "Failed"
    return "Running" if found.started else "Starting"
