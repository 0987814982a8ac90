"""`pumice stop RUN...`: stops runs. Their records stay."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.runs.arguments import BAD_INPUT, RUN_HELP, add_namespace, client_of, guarded, one_or_more
from pumice.client.local_client import LocalClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--all", action="store_true", help="all runs that have not finished")
    parser.add_argument("--force", action="store_true", help="end the pods at once")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    if not args.runs and not args.all:
        print("stop: name a run\n  hint: pumice ps lists them; --all stops all", file=sys.stderr)
        return BAD_INPUT
    return guarded(lambda: _stop(client_of(args), args))


def _stop(client: LocalClient, args: argparse.Namespace) -> int:
    runs = client.store.active_runs() if args.all else one_or_more(args.runs, client)
    for each in runs:
        client.stop(each, force=args.force)
    for found in client.wait(runs) if runs else []:
        print(f"{found.run} {found.phase}")
    return 0
