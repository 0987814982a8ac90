"""`pumice why [RUN|POD]`: says why a run or a pod waits, or why it failed."""

from __future__ import annotations

import argparse

import msgspec

from pumice.cli.runs.arguments import (
    RUN_OR_POD_HELP,
    add_namespace,
    add_output,
    argument,
    chosen_run,
    print_data,
    run_command,
    run_or_pod,
)
from pumice.client.backend import Backend
from pumice.diagnosis.why import why_lines
from pumice.model.text import escaped


@run_command(
    argument("target", nargs="?", metavar="RUN|POD", help=RUN_OR_POD_HELP),
    add_namespace,
    add_output,
    waits=False,
)
async def why(backend: Backend, args: argparse.Namespace) -> int:
    run, pod = await run_or_pod(backend, args.target) if args.target else (await chosen_run(backend, None), "")
    found = await backend.why(run, pod)
    if args.output:
        status = await backend.status(run)
        plain = {**msgspec.to_builtins(found), "outcome": status.outcome, "phase": status.phase}
        print_data(plain, args.output)
    else:
        print(escaped("\n".join(why_lines(found, backend.now())), lines=True))
    return 0
