"""`pumice wait RUN...`: waits until runs have finished, or have reached a phase."""

from __future__ import annotations

import argparse
import sys

import msgspec

from pumice.cli.runs.arguments import (
    NO_SUCH_RUN,
    NOT_SUCCESSFUL,
    RUN_HELP,
    TIMED_OUT,
    add_namespace,
    client_of,
    guarded,
    one_or_more,
    seconds,
)
from pumice.cli.runs.get import exit_code
from pumice.client.values import FINISHED, RUNNING, Status, check_goal
from pumice.engines.local.run_errors import WaitTimeout
from pumice.model.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--for", dest="goal", default=FINISHED, metavar="GOAL", help="finished (default), running, or a phase"
    )
    parser.add_argument("--any", action="store_true", help="until one of the runs has reached it")
    parser.add_argument("--timeout", metavar="10m", help="give up after this time (exit code 124)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _wait(args), NO_SUCH_RUN)


def _wait(args: argparse.Namespace) -> int:
    client = client_of(args)
    check_goal(args.goal, "--for")
    timeout = None if args.timeout is None else seconds(args.timeout, "--timeout")
    runs = one_or_more(args.runs, client)
    try:
        found = client.wait(runs, args.goal, some=args.any, timeout=timeout)
    except WaitTimeout as error:
        print(error, file=sys.stderr)
        return TIMED_OUT
    for each in found:
        if args.json:
            print(msgspec.json.encode(each).decode())
        elif each.is_finished:
            verdict = f": {each.verdict}" if each.verdict is not None else ""
            print(escaped(f"{each.run} {each.phase}{verdict}".partition("\n")[0]))
        else:
            print(f"{each.run} {each.phase}")
    codes = [_code(each, args.goal) for each in found if not args.any or each.is_finished or _is_there(each, args.goal)]
    return (min if args.any else max)(codes, default=0)


def _is_there(found: Status, goal: str) -> bool:
    return found.phase.lower() == goal.lower()


def _code(found: Status, goal: str) -> int:
    """A run that has reached the goal is good, however it ended; one that completed was running before."""
    if goal.lower() in (FINISHED, RUNNING):
        return 0 if _is_there(found, goal) else exit_code(found)
    return 0 if _is_there(found, goal) else exit_code(found) or NOT_SUCCESSFUL
