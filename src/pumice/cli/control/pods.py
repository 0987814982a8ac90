"""The commands that reach into running pods: exec, cp and forward."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Final

from pumice.cli.errors import print_error, refuse
from pumice.cli.runs.arguments import FAILED, add_namespace, argument, find_pod, run_command, tell
from pumice.client.backend import Backend, Exec, Feature
from pumice.client.pod_access import NotStartedError, PodPath, PodPort
from pumice.model.text import escaped
from pumice.store.run_errors import InvalidOption
from pumice.store.run_names import parse_pod

_POD: Final = argument("pod", metavar="POD", help="[RUN/]TASK-INDEX; without RUN, of the newest run")
_CONTAINER: Final = argument(
    "-c", "--container", default="", metavar="C", help="the container; default the pod's first"
)
# A run ends with no colon, so the first colon after the pod begins the path. `./a:b` and `/a:b` are local.
_IN_POD: Final = re.compile(r"(?P<pod>(?:[^./][^/]*(?<!:)/)?[^./][^/:]*):(?P<path>.*)", re.DOTALL)


@run_command(
    _POD,
    _CONTAINER,
    argument("-i", "--stdin", action="store_true", help=argparse.SUPPRESS),
    argument("-t", "--tty", action="store_true", help=argparse.SUPPRESS),
    argument("command", nargs="*", metavar="CMD", help="after --: the command and its arguments"),
    add_namespace,
    waits=False,
    feature=Feature.EXEC,
)
async def exec_(backend: Backend, args: argparse.Namespace) -> int:
    """Run a command in a pod, on a terminal if this one is called from one."""
    from pumice.cli.control.relay import relay, terminal_size

    if not args.command:
        return refuse("exec: a command is missing", "pumice exec worker-0 -- ps aux")
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


@run_command(
    argument("source", metavar="SOURCE", help="[RUN/]TASK-INDEX:PATH, or a local file or directory"),
    argument("target", metavar="TARGET", help="a local path, or [RUN/]TASK-INDEX:PATH"),
    _CONTAINER,
    add_namespace,
    waits=False,
    feature=Feature.COPY,
)
async def cp(backend: Backend, args: argparse.Namespace) -> int:
    source, target = _in_pod(args.source), _in_pod(args.target)
    if (source is None) == (target is None):
        raise InvalidOption(
            f"{args.source} {args.target}: one of them must be in a pod",
            "pumice cp worker-0:/data/model.pt . copies out of a pod, pumice cp model.pt worker-0:/data into it",
        )
    if source is not None:
        run, pod = await find_pod(backend, source[0])
        skipped = await backend.copy_from(run, PodPath(pod, source[1], args.container), Path(args.target))
    elif target is not None:
        run, pod = await find_pod(backend, target[0])
        skipped = await backend.copy_to(run, Path(args.source), PodPath(pod, target[1], args.container))
    for each in skipped:
        print(f"not copied: {escaped(each.path)}: {escaped(each.why)}", file=sys.stderr)
    return FAILED if any(each.error for each in skipped) else 0


def _in_pod(text: str) -> tuple[str, str] | None:
    """Return pod and path; None for a local path."""
    found = _IN_POD.fullmatch(text)
    if found is None or parse_pod(found["pod"]) is None:
        return None
    return found["pod"], found["path"] or "."


@run_command(
    _POD,
    argument("port", metavar="PORT[:LOCAL]", help="the port of the pod, and that of 127.0.0.1; default any free one"),
    add_namespace,
    feature=Feature.FORWARD,
)
async def forward(backend: Backend, args: argparse.Namespace) -> int:
    from pumice.client.pod_end import has_succeeded, pod_end
    from pumice.client.run_options.kinds import LAST_PORT

    match = re.fullmatch(r"([0-9]{1,5})(?::([0-9]{1,5}))?", args.port, re.ASCII)
    ports = [] if match is None else [int(each) for each in match.groups() if each is not None]
    if not ports or not all(0 < each <= LAST_PORT for each in ports):
        raise InvalidOption(f"{args.port}: must be PORT or PORT:LOCAL, with ports from 1 to {LAST_PORT}")
    port, local = ports[0], ports[1] if len(ports) > 1 else 0  # any free one
    run, pod = await find_pod(backend, args.pod)
    opened = await backend.forward(run, PodPort(pod, port, local), tell)
    try:
        print(f"127.0.0.1:{opened.local_port}", flush=True)
        print(f"it leads to port {port} of {run}/{pod}; Ctrl-C ends it", file=sys.stderr)
        what, end = await pod_end(backend, run, pod)
    finally:
        await opened.close()
    print(f"{what} {end}: the port is closed", file=sys.stderr)
    return 0 if has_succeeded(end) else FAILED
