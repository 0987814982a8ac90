"""`pumice resume RUN...`: runs go on that were suspended."""

from __future__ import annotations

import argparse

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, client_of, guarded, one_or_more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _resume(args))


def _resume(args: argparse.Namespace) -> int:
    client = client_of(args)
    for each in one_or_more(args.runs, client):
        client.resume(each)
        print(each.ref)
    return 0
