"""`pumice get RUN` prints the Job of a run with its status; `pumice wait RUN...` waits until runs have ended.

Both report by their exit codes how runs ended.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.cli.errors import print_error
from pumice.cli.runs.arguments import (
    NO_SUCH_RUN,
    NOT_FINISHED,
    NOT_SUCCESSFUL,
    RUN_OR_LAST,
    RUNS,
    STOPPED,
    TIMED_OUT,
    add_namespace,
    add_output,
    argument,
    chosen_run,
    one_or_more,
    print_data,
    print_lines,
    print_objects,
    run_command,
)
from pumice.client.backend import Backend
from pumice.client.backend import wait as wait_for
from pumice.client.run_options.kinds import read_time
from pumice.client.values import FINISHED, RUNNING, Status, check_goal
from pumice.diagnosis.outcome import Outcome
from pumice.model.job import Job
from pumice.model.text import escaped
from pumice.store.history.run_history import RunHistory
from pumice.store.run_errors import NoSuchRun, WaitTimeout

_EXIT_CODES: Final = {
    Outcome.SUCCEEDED: 0,
    Outcome.FAILED: NOT_SUCCESSFUL,
    Outcome.STOPPED: STOPPED,
    Outcome.SUSPENDED: STOPPED,
}


@run_command(
    RUN_OR_LAST,
    argument("--exit-code", action="store_true", help="report by the exit code how the run ended"),
    argument("--code", metavar="DIR", help="write the code of the run, as submitted, into a new directory"),
    add_namespace,
    add_output,
    waits=False,
)
async def get(backend: Backend, args: argparse.Namespace) -> int:
    try:
        run = await chosen_run(backend, args.run)
    except NoSuchRun as error:
        if not args.exit_code:
            raise
        print_error(error)
        return NO_SUCH_RUN
    status = await backend.status(run)
    if args.code is not None:
        from pumice.store.code.bundles import write_code

        left_out = write_code(str(run), await backend.code(run), Path(args.code))
        print_lines([f"left out, because they look like credentials: {', '.join(left_out)}"] if left_out else [])
        print(args.code)
    elif args.output == "yaml":
        print(submitted(await backend.history(run)), end="")
    else:
        print_data({**await backend.job(run), "run": msgspec.to_builtins(status)}, args.output or "yaml")
    return exit_code(status) if args.exit_code else 0


def submitted(history: RunHistory) -> str:
    """Return the Job as it was submitted, with its arguments, as a file; without what a server or a run adds."""
    job = msgspec.convert({name: value for name, value in history.record.job.items() if name != "status"}, Job)
    added: dict[str, Any] = {"uid": "", "resource_version": "", "generation": 0}
    added |= {"creation_timestamp": None, "deletion_timestamp": None}
    return job.replace(metadata=msgspec.structs.replace(job.metadata, **added)).to_yaml()


def exit_code(found: Status) -> int:
    return _EXIT_CODES.get(found.outcome, NOT_FINISHED)


@run_command(
    RUNS,
    argument("--for", dest="goal", default=FINISHED, metavar="GOAL", help="finished (default), an outcome or a phase"),
    argument("--any", action="store_true", help="until one of the runs has reached it"),
    argument("--timeout", metavar="10m", help="give up after this time (exit code 124)"),
    argument("--json", action="store_true", help="print one JSON object per run"),
    add_namespace,
    no_such_run=NO_SUCH_RUN,
)
async def wait(backend: Backend, args: argparse.Namespace) -> int:
    check_goal(args.goal, "--for")
    timeout = None if args.timeout is None else read_time("timeout", args.timeout)
    runs = await one_or_more(backend, args.runs)
    try:
        found = await wait_for(backend, runs, args.goal, some=args.any, timeout=timeout)
    except WaitTimeout as error:
        print_error(error)
        return TIMED_OUT
    if args.json:
        print_objects(found)
    else:
        for each in found:
            said = each.message if each.is_finished else ""
            print(escaped(f"{each.run} {each.outcome}: {said}".removesuffix(": ")))
    codes = [_code(each, args.goal) for each in found if not args.any or each.is_finished or each.reached(args.goal)]
    return (min if args.any else max)(codes, default=0)


def _code(found: Status, goal: str) -> int:
    """A run that has reached the goal is good, however it ended; one that completed was running before."""
    if found.reached(goal):
        return 0
    code = exit_code(found)
    return code if goal.lower() in (FINISHED, RUNNING) else code or NOT_SUCCESSFUL
