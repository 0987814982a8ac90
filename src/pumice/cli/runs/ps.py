"""`pumice ps`: lists runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pumice.cli.output import columns, table
from pumice.cli.run.screen import plain
from pumice.cli.runs.arguments import add_namespace, add_output, age, client_of, guarded, print_data
from pumice.client.local_client import LocalClient
from pumice.client.values import RunSummary

_WIDE = ("PRIORITY", "MODE", "HOST", "NAMESPACE", "FILE", "UID")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only runs of these Jobs")
    parser.add_argument("-a", "--all", action="store_true", help="all stored runs")
    parser.add_argument("--active", action="store_true", help="only runs that have not finished")
    add_namespace(parser)
    add_output(parser, "wide", "name")


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _list(client_of(args), args))


def _list(client: LocalClient, args: argparse.Namespace) -> int:
    found = client.runs(args.names, everything=args.all, active=args.active)
    match args.output:
        case "json" | "yaml":
            print_data({"items": found}, args.output)
        case "name":
            for each in found:
                print(each.run)
        case _ if not found:
            print("no runs; `pumice ps -a` lists all that are stored" if not args.all else "no runs", file=sys.stderr)
        case form:
            print("\n".join(lines(found, client, wide=form == "wide")))
    return 0


def lines(found: Sequence[RunSummary], client: LocalClient, *, wide: bool) -> list[str]:
    """Return the table; on a terminal, notes are cut at its width."""
    now = client.now()
    rows = [("RUN", "PHASE", "PODS", "TRY", "AGE", *(_WIDE if wide else ()), "NOTE")]
    for each in found:
        more = (str(each.priority), each.mode, each.host, each.namespace, each.file, each.uid) if wide else ()
        attempts = f"{each.attempt}/{each.max_attempts}" if each.max_attempts else str(each.attempt)
        pods = f"{each.pods.running}/{each.pods.total}"
        rows.append((each.run, each.phase, pods, attempts, age(each.created, now), *more, plain(each.note)))
    width = columns(sys.stdout)
    return [line if width is None else line[:width] for line in table(rows)]
