"""`pumice resume RUN...`: queues runs again that were suspended, or whose secrets are missing."""

from __future__ import annotations

import argparse
import os
import sys

from pumice.cli.findings import write_reports
from pumice.cli.runs.arguments import RUN_HELP, add_namespace, client_of, guarded, one_or_more
from pumice.client.job_files import load
from pumice.client.run_options import flags
from pumice.client.view.output import style_for
from pumice.engines.local.run_errors import InvalidOption
from pumice.model.job import Manifest
from pumice.model.problem import Position
from pumice.runtime.offline_context import offline_context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="pass on your variable again, which is not stored; NAME=VALUE sets it",
    )
    parser.add_argument(
        "--with", dest="documents", action="append", default=[], metavar="FILE", help="read Secrets again from a file"
    )
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _resume(args))


def _resume(args: argparse.Namespace) -> int:
    env = flags.variables(args.env, os.environ)
    documents = [document for file in args.documents for document in _secrets(file)]
    client = client_of(args)
    for each in one_or_more(args.runs, client):
        client.resume(each, env, documents)
        print(each.ref)
    return 0


def _secrets(file: str) -> list[Manifest]:
    """Return the Secrets of a file. Raises InvalidOption."""
    found = load(file, offline_context())
    write_reports(found.reports, sys.stderr, style_for(sys.stderr))
    values = [each.value for each in found.extra_objects if isinstance(each.value, dict)]
    secrets = [value for value in values if value.get("kind") == "Secret"]
    if not found.is_good or not secrets:
        raise InvalidOption(f"{file}: contains no Secret that can be used", where=Position("--with"))
    return secrets
