"""`pumice why [RUN|POD]`: says why a run or a pod waits, or why it failed."""

from __future__ import annotations

import argparse

import msgspec

from pumice.cli.runs.arguments import add_namespace, add_output, chosen_run, print_data, run_command, run_or_pod
from pumice.client.backend import Backend
from pumice.diagnosis.why import why_lines
from pumice.model.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "a run (NAME, NAME:N, @last, uid) or a pod ([RUN/]TASK-INDEX); default @last"
    parser.add_argument("target", nargs="?", metavar="RUN|POD", help=help_text)
    add_namespace(parser)
    add_output(parser)


@run_command(add_arguments, waits=False)
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
