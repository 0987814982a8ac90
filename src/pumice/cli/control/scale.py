"""`pumice scale RUN TASK=N...`: changes the number of pods of running tasks."""

from __future__ import annotations

import argparse
import asyncio

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, client_of, guarded
from pumice.client.run_options import flags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("replicas", nargs="+", metavar="TASK=N", help="the number of pods of a task")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _scale(args))


def _scale(args: argparse.Namespace) -> int:
    client = client_of(args)
    asyncio.run(client.scale_async(client.find(args.run), flags.scale(args.replicas)))
    return 0
