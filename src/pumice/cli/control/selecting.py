"""Which runs a command changes, and whether it may: others work on the same cluster."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from pumice.cli.errors import agrees
from pumice.cli.runs.arguments import RUN_HELP, add_namespace, one_or_more
from pumice.client.backend import Backend, RunRef, Selection
from pumice.client.values import Status
from pumice.model.problem import Position
from pumice.model.text import escaped
from pumice.store.run_errors import InvalidOption


def add_selection(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--all", action="store_true", help=f"all runs that {what}; on a cluster with -l or --mine")
    parser.add_argument("-l", "--selector", default="", metavar="LABEL=VALUE", help="on a cluster: Jobs with a label")
    parser.add_argument("--mine", action="store_true", help="on a cluster: Jobs that you submitted")
    add_consent(parser)


def add_consent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask, also if another person submitted the Job")
    add_namespace(parser)


async def chosen_runs(
    backend: Backend, args: argparse.Namespace, command: str, fits: Callable[[Status], bool] = lambda _status: True
) -> list[RunRef]:
    """Return the named runs, or those that are selected and fit, the oldest first. Raises RunError."""
    chooses = args.all or args.selector or args.mine
    if args.runs and chooses:
        raise InvalidOption("runs are named, and selected", "leave out one of them", Position(option="all"))
    if args.runs:
        return await one_or_more(backend, args.runs)
    if not chooses:
        does = "removes" if command == "rm" else f"{command}s"
        raise InvalidOption(f"{command}: name a run", f"pumice ps lists them; --all {does} all")
    if backend.waits and not (args.selector or args.mine):
        message = f"on {backend.name} it needs -l or --mine, too: other people's Jobs are there"
        raise InvalidOption(message, "", Position(option="all"))
    listing = await backend.runs(
        Selection(everything=True, mine=not backend.waits, by_me=args.mine, labels=args.selector)
    )
    return [RunRef.of(each) for each in reversed(listing.runs) if fits(each)]


async def confirm(backend: Backend, runs: Sequence[RunRef], args: argparse.Namespace) -> None:
    """Name the Jobs that other people submitted, and ask. Raises InvalidOption without a yes."""
    others = await backend.strangers(runs)
    if not others:
        return
    for run in runs:
        if run.uid in others:
            print(f"{run} on {backend.location(run)} was submitted by {escaped(others[run.uid])}", file=sys.stderr)
    if args.yes:
        return
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise InvalidOption("nothing was changed: it is another person's", "-y changes it all the same")
    if not agrees("Change it?"):
        raise InvalidOption("nothing was changed")


def said(backend: Backend, run: RunRef, what: str, args: argparse.Namespace) -> str:
    """Return what happened to a run of a cluster: `train on prod/ml: suspended`."""
    source = "PUMICE_ON" if os.environ.get("PUMICE_ON") else "`on =` in config.toml"
    named_by = "" if args.on else f" ({backend.name} is from {source})"
    return f"{run} on {backend.location(run)}: {what}{named_by}"
