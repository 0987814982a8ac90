"""`pumice suspend RUN...`: ends the pods of runs, which can be resumed."""

from __future__ import annotations

import argparse
import asyncio

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, client_of, guarded, one_or_more
from pumice.client.local_client import LocalClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _suspend(client_of(args), args))


def _suspend(client: LocalClient, args: argparse.Namespace) -> int:
    runs = one_or_more(args.runs, client)
    for each in runs:
        asyncio.run(client.suspend_async(each))
    for found in client.wait(runs):
        print(f"{found.run} {found.phase}")
    return 0
