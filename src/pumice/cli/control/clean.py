"""`pumice clean`: removes old runs, and on request claims and images."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from pumice.cli.runs.arguments import BAD_INPUT, FAILED, add_namespace, client_of, guarded
from pumice.client.run_options import flags
from pumice.client.run_options.user_config import read_user_config
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.runs.retention import expired_runs, remove_runs
from pumice.engines.local.stored_data import Claim, StoredImage, stored_images, unused_claims
from pumice.model.problem import Position


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--older-than", metavar="30d", help="runs that finished longer ago than this")
    parser.add_argument("--max-size", metavar="20Gi", help="the oldest runs, until the others take less than this")
    parser.add_argument("--images", action="store_true", help="also the images that were added or pulled")
    parser.add_argument("--claims", action="store_true", help="also the data of claims that no active run uses")
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
    runs = expired_runs(client.store, retention, client.now(), args.namespace) if client.store.state.is_dir() else []
    others: list[Claim | StoredImage] = [*unused_claims(client.store, args.namespace)] if args.claims else []
    others += stored_images(client.store) if args.images else []
    found = [*(each.run.ref for each in runs), *(f"{each.name} ({each.size})" for each in others)]
    if args.dry_run or not found:
        print("\n".join(found) if found else "nothing to remove", file=sys.stdout if found else sys.stderr)
        return 0
    if not args.yes and not sys.stdin.isatty():
        what = "1 item" if len(found) == 1 else f"{len(found)} items"
        print(f"{what} would be removed\n  hint: -y removes them, --dry-run lists them", file=sys.stderr)
        return BAD_INPUT
    if not args.yes and not _confirmed(found):
        return 0
    for ref in remove_runs(client.store, runs):
        print(ref)
    return _remove(others)


def _confirmed(found: Sequence[str]) -> bool:
    print("\n".join(found), file=sys.stderr)
    print("Remove them with their logs and data? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _remove(others: Sequence[Claim | StoredImage]) -> int:
    code = 0
    for each in others:
        try:
            each.remove()
        except (OSError, ImageError) as error:
            print(f"{each.name}: {error}", file=sys.stderr)
            code = FAILED
        else:
            print(each.name)
    return code


def _days(text: str) -> int:
    """Raises InvalidOption."""
    number = text.removesuffix("d")
    if not (number.isascii() and number.isdecimal()):
        raise InvalidOption(f"{text}: must be a number of days such as 30d", where=Position("--older-than"))
    return min(int(number), dt.timedelta.max.days // 2)
