"""`pumice exec POD -- CMD...`: runs a command in a running pod, on a terminal if it is called from one."""

from __future__ import annotations

import argparse
import os
import sys

from pumice.cli.control.relay import relay, terminal_size
from pumice.cli.runs.arguments import BAD_INPUT, add_namespace, client_of, guarded
from pumice.client.pods.entering import NotStartedError, enter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", metavar="POD", help="[RUN/]TASK-INDEX; without RUN, of the newest run")
    parser.add_argument("-c", "--container", default="", metavar="C", help="the container; default the pod's first")
    parser.add_argument("-i", "--stdin", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-t", "--tty", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", metavar="CMD", help="after --: the command and its arguments")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    if not args.command:
        print("exec: a command is missing\n  hint: pumice exec worker-0 -- ps aux", file=sys.stderr)
        return BAD_INPUT
    return guarded(lambda: _exec(args))


def _exec(args: argparse.Namespace) -> int:
    client = client_of(args)
    stored, pod = client.find_pod(args.pod)
    size = terminal_size(1) if os.isatty(0) and os.isatty(1) else None
    try:
        entered = enter(stored, pod, args.command, args.container, size)
        try:
            return relay(entered, on_terminal=size is not None)
        finally:
            entered.close()
    except NotStartedError as error:
        print(error, file=sys.stderr)
        return error.exit_code
