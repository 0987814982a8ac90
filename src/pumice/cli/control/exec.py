"""`pumice exec POD -- CMD...`: runs a command in a running pod."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.runs.arguments import BAD_INPUT, add_namespace, client_of, guarded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", metavar="POD", help="[RUN/]TASK-INDEX; without RUN, of the newest run")
    parser.add_argument("-c", "--container", default="", metavar="C", help="the container; default the pod's first")
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
    answer = client.call(stored, "exec", pod=pod, argv=args.command, container=args.container)
    sys.stdout.buffer.write(str(answer["output"]).encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    return int(answer["code"])
