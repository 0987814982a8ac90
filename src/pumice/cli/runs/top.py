"""`pumice top [RUN]`: shows what the pods of runs use of CPUs, memory and GPUs."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence

import msgspec

from pumice.cli.runs.arguments import (
    RUN_HELP,
    add_namespace,
    add_output,
    client_of,
    guarded,
    print_data,
    seconds,
)
from pumice.client.local_client import LocalClient
from pumice.client.usage import Sample, usage
from pumice.client.view.output import table
from pumice.client.view.screen import Screen
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.state.disk_use import size_text
from pumice.model.problem import Position

_SHORTEST = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default all active runs")
    parser.add_argument("--interval", default="2s", metavar="2s", help="time between two samples on a terminal")
    parser.add_argument("--json", action="store_true", help="print one JSON object per pod")
    add_namespace(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _top(client_of(args), args))


def _top(client: LocalClient, args: argparse.Namespace) -> int:
    interval = seconds(args.interval, "--interval")
    if interval < _SHORTEST:
        raise InvalidOption(f"{args.interval}: must be {_SHORTEST:g}s or more", "", Position("--interval"))
    chosen = None if args.run is None else client.find(args.run)
    if not sys.stdout.isatty() or args.output:
        _print_once(client, chosen, args)
        return 0
    screen = Screen.of(sys.stdout, sys.stderr)
    while True:
        runs = _active(client, chosen)
        found = asyncio.run(usage(client, runs))
        if args.json:
            _print_objects(found)
        else:
            height = screen.size()[1] - 1 if screen.terminal is not None else None
            screen.draw(_clipped(lines(found, by_use=True), height))
        if not runs or (chosen is not None and not chosen.is_owned):
            # Leave the last table on the screen.
            print(file=sys.stderr)
            return 0
        time.sleep(interval)


def _print_once(client: LocalClient, chosen: StoredRun | None, args: argparse.Namespace) -> None:
    runs = _active(client, chosen)
    found = asyncio.run(usage(client, runs))
    for each in runs:
        if not each.is_owned:
            print(f"{each.ref} does not run: its last sample", file=sys.stderr)
    if args.output:
        print_data({"items": list(_objects(found))}, args.output)
    elif args.json:
        _print_objects(found)
    elif any(found.values()):
        print("\n".join(lines(found)))
    else:
        print("no pod runs", file=sys.stderr)


def _active(client: LocalClient, chosen: StoredRun | None) -> list[StoredRun]:
    """Return the chosen run, or all of this machine that run now."""
    if chosen is not None:
        return [chosen]
    active = [each for each in client.store.active_runs() if each.is_of_this_host and each.is_owned]
    return [each for each in active if client.namespace in ("", each.record.namespace)]


def _objects(found: Mapping[str, Sequence[Sample]]) -> list[dict[str, object]]:
    return [{"run": run, **msgspec.to_builtins(each)} for run, samples in found.items() for each in samples]


def _print_objects(found: Mapping[str, Sequence[Sample]]) -> None:
    for each in _objects(found):
        print(msgspec.json.encode(each).decode(), flush=True)


def lines(found: Mapping[str, Sequence[Sample]], *, by_use: bool = False) -> list[str]:
    """Return a row for each pod; those that use the most CPU first, or by name."""
    has_gpus = any(each.gpus for samples in found.values() for each in samples)
    more = ("GPU", "GPU MEMORY") if has_gpus else ()
    rows = [("RUN", "POD", "CPU", "MEMORY", *more)]
    for run, samples in found.items():
        ordered = sorted(samples, key=lambda each: each.cpu, reverse=True) if by_use else samples
        rows += [
            (run, each.pod, f"{each.cpu:.2f}", size_text(each.memory), *_gpu(each)[: len(more)]) for each in ordered
        ]
    return table(rows)


def _gpu(sample: Sample) -> tuple[str, str]:
    if not sample.gpus:
        return "-", "-"
    percent = "unknown" if sample.gpu is None else f"{sample.gpu:.0f}%"
    return f"{percent} of {sample.gpus}", size_text(sample.gpu_memory)


def _clipped(shown: Sequence[str], height: int | None) -> list[str]:
    """Return the lines that fit a terminal, and how many do not."""
    if height is None or len(shown) <= height:
        return list(shown)
    return [*shown[: height - 1], f"and {len(shown) - height + 1} more"]
