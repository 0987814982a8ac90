"""`pumice ps`: lists runs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pumice.cli.runs.arguments import add_namespace, add_output, age, guarded, print_data, reader_of
from pumice.client.run_reader import RunReader
from pumice.client.values import Status, requested
from pumice.client.view.output import columns, table
from pumice.client.view.terminal import write_own
from pumice.engines.local.run_errors import InvalidOption
from pumice.model.problem import Position

_WIDE: Final = ("PRIORITY", "CPU", "MEM", "GPU", "MODE", "HOST", "NAMESPACE", "FILE", "UID")
_PAUSE: Final = 1.0  # seconds between two updates of -w
_REDRAW: Final = "\x1b[H\x1b[J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only runs of these Jobs")
    parser.add_argument("-a", "--all", action="store_true", help="all stored runs")
    parser.add_argument("--active", action="store_true", help="only runs that have not finished")
    parser.add_argument("-w", "--watch", action="store_true", help="keep running, and print what changes")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run, with -w for each change")
    add_namespace(parser)
    add_output(parser, "wide", "name")


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _list(reader_of(args), args))


def _list(client: RunReader, args: argparse.Namespace) -> int:
    if args.all and args.active:
        raise InvalidOption("cannot be combined with --active", "leave out one of them", Position("--all"))
    if args.watch:
        if args.output in ("json", "yaml"):
            raise InvalidOption(f"{args.output}: not with -w", "--json prints one object per change", Position("-o"))
        _watch(client, args)
    found = client.runs(args.names, everything=args.all, active=args.active)
    if args.json:
        _print_json(found)
        return 0
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
    if waiting := client.waits_for_service(found):
        runs = "1 run waits" if waiting == 1 else f"{waiting} runs wait"
        print(f"service not running, {runs}; the next command that changes a run starts it", file=sys.stderr)
    return 0


def _watch(client: RunReader, args: argparse.Namespace) -> None:
    """Redraw the table on a terminal; elsewhere print the runs that changed. Ctrl-C ends it."""
    known: dict[str, Status] = {}
    terminal, begun = sys.stdout.isatty() and not args.json and args.output != "name", False
    while True:
        found = client.runs(args.names, everything=args.all, active=args.active)
        changed = [each for each in found if known.get(each.uid) != each]
        known = {each.uid: each for each in found}
        if args.json:
            _print_json(changed)
        elif args.output == "name":
            print("".join(f"{each.run}\n" for each in changed), end="")
        elif terminal or changed:
            shown = lines(found if terminal else changed, client, wide=args.output == "wide")
            if terminal:
                write_own(sys.stdout, _REDRAW)
            print("\n".join(shown[1:] if begun and not terminal else shown))
            begun = True
        sys.stdout.flush()
        time.sleep(_PAUSE)


def _print_json(found: Sequence[Status]) -> None:
    for each in found:
        print(msgspec.json.encode(each).decode())


def lines(found: Sequence[Status], client: RunReader, *, wide: bool) -> list[str]:
    """Return the table; on a terminal, notes are cut at its width."""
    now = client.now()
    rows = [("RUN", "PHASE", "PODS", "TRY", "AGE", *(_WIDE if wide else ()), "NOTE")]
    for each in found:
        more = tuple(_wide(each)) if wide else ()
        attempts = f"{each.attempt}/{each.max_attempts}" if each.max_attempts else str(each.attempt)
        pods = f"{each.pods.running}/{each.pods.total}"
        phase = each.phase if each.readable else "?"
        rows.append((each.run, phase, pods, attempts, age(each.created, now), *more, each.note))
    width = columns(sys.stdout)
    return [line if width is None else line[:width] for line in table(rows)]


def _wide(found: Status) -> Iterator[str]:
    """Yield the further columns. The amounts are those that the run needs to start."""
    yield str(found.priority)
    yield from (text or "-" for text in requested(found))
    yield from (found.mode, found.host, found.namespace, found.file, found.uid)
