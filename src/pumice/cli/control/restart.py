"""`pumice restart RUN`: restarts all pods of a run. It costs no retry."""

from __future__ import annotations

import argparse

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, client_of, guarded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _restart(args))


def _restart(args: argparse.Namespace) -> int:
    client = client_of(args)
    client.call(client.find(args.run), "restart")
    return 0
