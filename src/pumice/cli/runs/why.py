"""`pumice why [RUN|POD]`: says why a run or a pod waits, or why it failed."""

from __future__ import annotations

import argparse
import sys

import msgspec

from pumice.cli.runs.arguments import add_namespace, add_output, chosen_run, client_of, guarded, print_data
from pumice.client.reasons import why_lines
from pumice.model.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "a run (NAME, NAME:N, @last, uid) or a pod ([RUN/]TASK-INDEX); default @last"
    parser.add_argument("target", nargs="?", metavar="RUN|POD", help=help_text)
    add_namespace(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _why(args))


def _why(args: argparse.Namespace) -> int:
    client = client_of(args)
    if args.target:
        stored, pod = client.find_run_or_pod(args.target)
        if pod and "/" not in args.target:
            print(stored.ref, file=sys.stderr)
    else:
        stored, pod = chosen_run(client, None), ""
    found = client.why(stored, pod)
    if args.output:
        plain = {**msgspec.to_builtins(found), "phase": client.summary(stored).phase}
        print_data(plain, args.output)
    else:
        print(escaped("\n".join(why_lines(found)), lines=True))
    return 0
