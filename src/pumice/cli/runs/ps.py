"""`pumice ps`: lists runs."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pumice.cli.runs.arguments import (
    add_namespace,
    add_output,
    argument,
    print_data,
    print_lines,
    print_objects,
    run_command,
)
from pumice.client.backend import Backend, Listing, Selection
from pumice.client.values import Status, changed_code, pods_done, requested
from pumice.client.view.output import clipped_table
from pumice.client.view.terminal import write_own
from pumice.diagnosis.hang import hang_note
from pumice.model.problem import Position
from pumice.model.quantity import Quantity
from pumice.model.units import age_text
from pumice.store.run_errors import InvalidOption

_WIDE: Final = ("PHASE", "PRIORITY", "CPU", "MEM", "GPU", "MODE", "HOST", "NAMESPACE", "FILE", "UID", "DIR", "PORTS")
_LABELS: Final = "only Jobs with these labels, as kubectl selects them; with --on"
_REDRAW: Final = "\x1b[H\x1b[J"


@run_command(
    argument("names", nargs="*", metavar="NAME", help="only runs of these Jobs"),
    argument("-a", "--all", action="store_true", help="all stored runs"),
    argument("--active", action="store_true", help="only runs that have not finished"),
    argument("-w", "--watch", action="store_true", help="keep running, and print what changes"),
    argument("-l", "--selector", default="", metavar="LABELS", help=_LABELS),
    argument("--mine", action="store_true", help="only runs that you have submitted; with --on"),
    argument("--json", action="store_true", help="print one JSON object per run, with -w for each change"),
    add_namespace,
    lambda parser: add_output(parser, "wide", "name"),
    waits=lambda args: args.watch,
)
async def ps(backend: Backend, args: argparse.Namespace) -> int:
    if args.all and args.active:
        raise InvalidOption("cannot be combined with --active", "leave out one of them", Position(option="all"))
    chosen = {"amounts": args.output == "wide", "labels": args.selector, "by_me": args.mine}
    selection = Selection(args.names, args.all, args.active, **chosen)
    if args.watch:
        if args.output in ("json", "yaml"):
            raise InvalidOption(f"{args.output}: not with -w", "--json prints one object per change", Position("-o"))
        await _watch(backend, selection, args)
    found = await backend.runs(selection)
    if args.json:
        print_objects(found.runs)
        return 0
    match args.output:
        case "json" | "yaml":
            print_data({"items": found.runs}, args.output)
        case "name":
            for each in found.runs:
                print(each.run)
        case _ if not found.runs:
            print("no runs; `pumice ps -a` lists all that are stored" if not args.all else "no runs", file=sys.stderr)
        case form:
            print("\n".join(lines(found, backend.now(), wide=form == "wide")))
    print_lines(found.warnings)
    return 0


async def _watch(backend: Backend, selection: Selection, args: argparse.Namespace) -> None:
    """Redraw the table on a terminal; elsewhere print the runs that changed. Ctrl-C ends it."""
    known: dict[str, Status] = {}
    terminal, begun = sys.stdout.isatty() and not args.json and args.output != "name", False
    async for found in backend.listings(selection):
        changed = [each for each in found.runs if known.get(each.uid) != each]
        known = {each.uid: each for each in found.runs}
        if args.json:
            print_objects(changed)
        elif args.output == "name":
            print("".join(f"{each.run}\n" for each in changed), end="")
        elif terminal or changed:
            listing = found if terminal else replace(found, runs=changed)
            shown = lines(listing, backend.now(), wide=args.output == "wide")
            if terminal:
                write_own(sys.stdout, _REDRAW)
            print("\n".join(shown[1:] if begun and not terminal else shown))
            begun = True
        sys.stdout.flush()


def lines(found: Listing, now: dt.datetime, *, wide: bool) -> list[str]:
    """Return the table; on a terminal, notes are cut at its width."""
    # A run of this machine is in the one queue that the machine has.
    has_queues = wide and any(each.queue for each in found.runs)
    queue = ("QUEUE",) if has_queues else ()
    rows = [("RUN", "STATUS", "PODS", "TRY", "AGE", *queue, *(_WIDE if wide else ()), "NOTE")]
    for each in found.runs:
        more = _wide(each, found.amounts.get(each.uid)) if wide else ()
        more = (each.queue or "-", *more) if has_queues else more
        attempts = f"{each.attempt}/{each.max_attempts}" if each.max_attempts else str(each.attempt)
        word = each.outcome if each.readable else "?"
        silent = hang_note(each.hang.at(now)) if each.hang is not None else ""
        # The runs of a sweep wait for the same reason: their notes tell them apart.
        note = " · ".join(filter(None, (each.identity, silent, changed_code(each), each.message)))
        rows.append(
            (each.run, word, pods_done(each), attempts, age_text((now - each.created).total_seconds()), *more, note)
        )
    return clipped_table(rows)


def _wide(found: Status, holds: Mapping[str, Quantity] | None) -> tuple[str, ...]:
    """Return the further columns. The amounts are those that the run holds, or needs to start."""
    amounts = (text or "-" for text in requested(found, holds))
    about = (found.mode, found.host, found.namespace, found.file, found.uid, found.workdir or "-")
    ports = ", ".join(map(str, found.published)) or "-"
    return found.phase if found.readable else "?", str(found.priority), *amounts, *about, ports
