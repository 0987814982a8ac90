"""`pumice detach RUN...`: lets foreground runs continue without their terminals."""

from __future__ import annotations

import argparse

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, client_of, guarded, one_or_more
from pumice.client.local_client import LocalClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _detach(client_of(args), args))


def _detach(client: LocalClient, args: argparse.Namespace) -> int:
    for each in one_or_more(args.runs, client):
        print(client.call(each, "detach"))
    return 0
