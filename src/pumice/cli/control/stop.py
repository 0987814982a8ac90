"""`pumice stop RUN...`: stops runs. Their records stay."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.runs.arguments import (
    BAD_INPUT,
    FAILED,
    RUN_HELP,
    add_namespace,
    client_of,
    guarded,
    one_or_more,
    seconds,
)
from pumice.client.local_client import LocalClient
from pumice.engines.local.run_errors import RunError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--all", action="store_true", help="all runs that have not finished")
    parser.add_argument("--grace", metavar="30s", help="how long pods have to end, instead of their grace periods")
    parser.add_argument("--force", action="store_true", help="end the pods at once, and a process that hangs")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    if not args.runs and not args.all:
        print("stop: name a run\n  hint: pumice ps lists them; --all stops all", file=sys.stderr)
        return BAD_INPUT
    return guarded(lambda: _stop(client_of(args), args))


def _stop(client: LocalClient, args: argparse.Namespace) -> int:
    grace = None if args.grace is None else seconds(args.grace, "--grace")
    runs = client.active() if args.all else one_or_more(args.runs, client)
    stopped = []
    for each in runs:
        # One that cannot be stopped keeps no other from being stopped.
        try:
            client.stop(each, force=args.force, grace=grace)
        except RunError as error:
            print(error, file=sys.stderr)
        else:
            stopped.append(each)
    for found in client.wait(stopped) if stopped else []:
        print(f"{found.run} {found.phase}")
    client.revive(client.active())
    return 0 if len(stopped) == len(runs) else FAILED
