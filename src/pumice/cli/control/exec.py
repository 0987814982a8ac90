"""`pumice exec POD -- CMD...`: runs a command in a running pod, on a terminal if it is called from one."""

from __future__ import annotations

import argparse
import os
import sys

from pumice.cli.control.relay import relay, terminal_size
from pumice.cli.findings import print_error
from pumice.cli.runs.arguments import BAD_INPUT, RunCommand, add_namespace, find_pod
from pumice.client.backend import Backend, Exec, Feature
from pumice.client.pod_access import NotStartedError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", metavar="POD", help="[RUN/]TASK-INDEX; without RUN, of the newest run")
    parser.add_argument("-c", "--container", default="", metavar="C", help="the container; default the pod's first")
    parser.add_argument("-i", "--stdin", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-t", "--tty", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", metavar="CMD", help="after --: the command and its arguments")
    add_namespace(parser)


async def _exec(backend: Backend, args: argparse.Namespace) -> int:
    if not args.command:
        print("exec: a command is missing\n  hint: pumice exec worker-0 -- ps aux", file=sys.stderr)
        return BAD_INPUT
    run, pod = await find_pod(backend, args.pod)
    size = terminal_size(1) if os.isatty(0) and os.isatty(1) else None
    try:
        entered = await backend.enter(run, Exec(pod, args.command, args.container, size))
        try:
            return relay(entered, on_terminal=size is not None)
        finally:
            entered.close()
    except NotStartedError as error:
        print_error(error)
        return error.exit_code


exec_ = RunCommand(add_arguments, _exec, waits=lambda _args: False, feature=Feature.EXEC)
