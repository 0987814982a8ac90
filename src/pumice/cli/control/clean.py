"""`pumice clean`: removes old runs."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from dataclasses import replace

from pumice.cli.run import flags
from pumice.cli.run.user_config import read_user_config
from pumice.cli.runs.arguments import BAD_INPUT, add_namespace, client_of, guarded
from pumice.engines.local.run_errors import SettingsError
from pumice.engines.local.runs.retention import expired, finished_runs, prune
from pumice.model.problem import Position


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--older-than", metavar="30d", help="runs that finished longer ago than this")
    parser.add_argument("--max-size", metavar="20Gi", help="the oldest runs, until the others take less than this")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _clean(args))


def _clean(args: argparse.Namespace) -> int:
    client = client_of(args)
    retention = read_user_config(client.environ).retention
    if args.older_than is not None:
        retention = replace(retention, keep_days=_days(args.older_than))
    if args.max_size is not None:
        retention = replace(retention, max_size=flags.size(args.max_size.removesuffix("B"), "--max-size"))
    client.settle()
    found = [each.run.ref for each in expired(finished_runs(client.store), retention, client.now())]
    if args.dry_run or not found:
        print("\n".join(found) if found else "nothing to remove", file=sys.stdout if found else sys.stderr)
        return 0
    if not args.yes:
        if not sys.stdin.isatty():
            print(f"{len(found)} runs would be removed\n  hint: -y removes them, --dry-run lists them", file=sys.stderr)
            return BAD_INPUT
        print("\n".join(found), file=sys.stderr)
        print("Remove them with their logs? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return 0
    for ref in prune(client.store, retention, client.now()):
        print(ref)
    return 0


def _days(text: str) -> int:
    """Raises SettingsError."""
    number = text.removesuffix("d")
    if not (number.isascii() and number.isdecimal()):
        raise SettingsError(f"{text}: must be a number of days such as 30d", where=Position("--older-than"))
    return min(int(number), dt.timedelta.max.days // 2)
