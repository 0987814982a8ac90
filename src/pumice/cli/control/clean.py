"""`pumice clean`: removes old runs, and on request claims and images."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys

from msgspec.structs import replace

from pumice.cli.errors import agrees, refuse
from pumice.cli.runs.arguments import FAILED, add_namespace, argument, run_command
from pumice.client.backend import Backend, Feature
from pumice.client.run_options.kinds import Source, read_time, size
from pumice.client.run_options.toml_files import read_user_config
from pumice.model.problem import Position
from pumice.model.text import plural
from pumice.store.run_errors import InvalidOption


@run_command(
    argument("--older-than", metavar="30d", help="runs that finished longer ago than this: 30d, 12h, 90s"),
    argument("--max-size", metavar="20Gi", help="the oldest runs, until the others take less than this"),
    argument("--images", action="store_true", help="also the images that were added or pulled"),
    argument("--claims", action="store_true", help="also the data of claims that no active run uses"),
    argument("--dry-run", action="store_true", help="only print what would be removed"),
    argument("-y", "--yes", action="store_true", help="do not ask"),
    add_namespace,
    waits=False,
    feature=Feature.CLEAN,
)
async def clean(backend: Backend, args: argparse.Namespace) -> int:
    retention = read_user_config(os.environ).retention
    if args.older_than is not None:
        retention = replace(retention, keep_days=_days(args.older_than))
    if args.max_size is not None:
        given = size(args.max_size.removesuffix("B"), Source(Position(option="max-size")))
        retention = replace(retention, max_size=given)
    leftovers = await backend.leftovers(retention, claims=args.claims, images=args.images)
    found = leftovers.names
    if args.dry_run or not found:
        print("\n".join(found) if found else "nothing to remove", file=sys.stdout if found else sys.stderr)
        return 0
    if not args.yes and not sys.stdin.isatty():
        return refuse(f"{plural(len(found), 'item')} would be removed", "-y removes them, --dry-run lists them")
    if not args.yes:
        print("\n".join(found), file=sys.stderr)
        if not agrees("Remove them with their logs and data?"):
            return 0
    code = 0
    async for name, why in leftovers.remove():
        print(f"{name}: {why}" if why else name, file=sys.stderr if why else sys.stdout)
        code = FAILED if why else code
    return code


def _days(text: str) -> float:
    """Read `30d` or a duration such as `12h`. Raises InvalidOption."""
    number = text.removesuffix("d")
    if number.isascii() and number.isdecimal():
        return min(int(number), dt.timedelta.max.days // 2)
    try:
        return read_time("older-than", text) / 86400
    except InvalidOption as error:
        where = Position(option="older-than")
        raise InvalidOption(f"{text}: must be a time such as 30d, 12h or 90m", error.problem.advice, where) from error
