"""`pumice top [RUN]`: shows what the pods of runs use of CPUs, memory and GPUs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping

import msgspec

from pumice.cli.runs.arguments import (
    RUN_HELP,
    add_namespace,
    add_output,
    argument,
    print_data,
    print_objects,
    run_command,
)
from pumice.client.backend import Backend, Feature, RunRef, Selection, Usage
from pumice.client.run_options.kinds import read_time
from pumice.client.view.output import table
from pumice.client.view.screen import Screen
from pumice.model.problem import Position
from pumice.model.units import size_text
from pumice.store.run_errors import InvalidOption

_SHORTEST = 0.5


@run_command(
    argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default all active runs"),
    argument("--interval", default="2s", metavar="2s", help="time between two samples on a terminal"),
    argument("--json", action="store_true", help="print one JSON object per pod"),
    add_namespace,
    add_output,
    feature=Feature.USAGE,
)
async def top(backend: Backend, args: argparse.Namespace) -> int:
    interval = read_time("interval", args.interval)
    if interval < _SHORTEST:
        raise InvalidOption(f"{args.interval}: must be {_SHORTEST:g}s or more", "", Position(option="interval"))
    chosen = None if args.run is None else await backend.find(args.run)
    if not sys.stdout.isatty() or args.output:
        _print_once(await _usage(backend, chosen), args)
        return 0
    screen = Screen.of(sys.stdout, sys.stderr)
    while True:
        found = await _usage(backend, chosen)
        if args.json:
            print_objects(_objects(found))
        else:
            shown, height = lines(found, by_use=True), screen.size()[1] - 1
            if screen.terminal is not None and len(shown) > height:
                shown[height - 1 :] = [f"and {len(shown) - height + 1} more"]
            screen.draw(shown)
        if not any(each.live for each in found.values()):
            # Leave the last table on the screen.
            print(file=sys.stderr)
            return 0
        await asyncio.sleep(interval)


async def _usage(backend: Backend, chosen: RunRef | None) -> dict[str, Usage]:
    """Return what the pods of the chosen run use, or those of all runs that run now, by run."""
    if chosen is not None:
        return {str(chosen): await backend.usage(chosen)}
    active = (await backend.runs(Selection(active=True, mine=True))).runs
    runs = [RunRef.of(each) for each in reversed(active) if each.started]
    found = await asyncio.gather(*map(backend.usage, runs))
    return {str(run): each for run, each in zip(runs, found, strict=True) if each.live}


def _print_once(found: Mapping[str, Usage], args: argparse.Namespace) -> None:
    for run, usage in found.items():
        if not usage.live:
            print(f"{run} does not run: its last sample", file=sys.stderr)
    if args.output:
        print_data({"items": list(_objects(found))}, args.output)
    elif args.json:
        print_objects(_objects(found))
    elif any(each.samples for each in found.values()):
        print("\n".join(lines(found)))
    else:
        print("no pod runs", file=sys.stderr)


def _objects(found: Mapping[str, Usage]) -> list[dict[str, object]]:
    return [{"run": run, **msgspec.to_builtins(each)} for run, usage in found.items() for each in usage.samples]


def lines(found: Mapping[str, Usage], *, by_use: bool = False) -> list[str]:
    """Return a row for each pod; those that use the most CPU first, or by name."""
    has_gpus = any(each.gpus for usage in found.values() for each in usage.samples)
    more = ("GPU", "GPU MEMORY") if has_gpus else ()
    rows = [("RUN", "POD", "CPU", "MEMORY", *more)]
    for run, usage in found.items():
        ordered = sorted(usage.samples, key=lambda each: each.cpu, reverse=True) if by_use else usage.samples
        for each in ordered:
            percent = "unknown" if each.gpu is None else f"{each.gpu:.0f}%"
            gpus = (f"{percent} of {each.gpus}", size_text(each.gpu_memory)) if each.gpus else ("-", "-")
            rows.append((run, each.pod, f"{each.cpu:.2f}", size_text(each.memory), *gpus[: len(more)]))
    return table(rows)
