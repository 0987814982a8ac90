"""`pumice rm RUN...`: removes the records and logs of runs."""

from __future__ import annotations

import argparse

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, client_of, guarded, one_or_more
from pumice.engines.local.stored_data import claims_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--force", action="store_true", help="stop runs that have not finished")
    parser.add_argument("--claims", action="store_true", help="also the data of their claims; prints what is removed")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _remove(args))


def _remove(args: argparse.Namespace) -> int:
    client = client_of(args)
    runs = one_or_more(args.runs, client)
    for each in () if args.force else runs:
        client.check_removable(each)  # all of them, before any is removed
    for each in runs:
        client.remove(each, force=args.force)
        print(each.ref)
        for claim in claims_of(each, client.store) if args.claims else ():
            print(f"{claim.name} ({claim.size})")
            claim.remove()
    client.revive(client.active())
    return 0
