"""`pumice forward POD PORT[:LOCAL]`: makes a port of a running pod available on this machine."""

from __future__ import annotations

import argparse
import re
import sys

from pumice.cli.control.selecting import tell
from pumice.cli.runs.arguments import FAILED, RunCommand, add_namespace, find_pod
from pumice.client.backend import Backend, Feature
from pumice.client.pod_access import PodPort
from pumice.client.run_options.kinds import LAST_PORT
from pumice.store.run_errors import InvalidOption


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", metavar="POD", help="[RUN/]TASK-INDEX; without RUN, of the newest run")
    parser.add_argument(
        "port", metavar="PORT[:LOCAL]", help="the port of the pod, and that of 127.0.0.1; default any free one"
    )
    add_namespace(parser)


async def _forward(backend: Backend, args: argparse.Namespace) -> int:
    from pumice.client.pod_end import has_succeeded, pod_end

    port, local = _ports(args.port)
    run, pod = await find_pod(backend, args.pod)
    opened = await backend.forward(run, PodPort(pod, port, local), tell)
    try:
        print(f"127.0.0.1:{opened.port}", flush=True)
        print(f"it leads to port {port} of {run}/{pod}; Ctrl-C ends it", file=sys.stderr)
        what, end = await pod_end(backend, run, pod)
    finally:
        await opened.close()
    print(f"{what} {end}: the port is closed", file=sys.stderr)
    return 0 if has_succeeded(end) else FAILED


def _ports(text: str) -> tuple[int, int]:
    """Return PORT and LOCAL, 0 for any. Raises InvalidOption."""
    match = re.fullmatch(r"([0-9]{1,5})(?::([0-9]{1,5}))?", text, re.ASCII)
    ports = [] if match is None else [int(each) for each in match.groups() if each is not None]
    if not ports or not all(0 < each <= LAST_PORT for each in ports):
        raise InvalidOption(f"{text}: must be PORT or PORT:LOCAL, with ports from 1 to {LAST_PORT}")
    return ports[0], ports[1] if len(ports) > 1 else 0


forward = RunCommand(add_arguments, _forward, feature=Feature.FORWARD)
