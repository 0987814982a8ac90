"""`pumice cp POD:PATH LOCAL | LOCAL POD:PATH`: copies files out of a pod, or into a running pod."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from pumice.cli.runs.arguments import FAILED, RunCommand, add_namespace, find_pod
from pumice.client.backend import Backend, Feature
from pumice.client.pod_access import PodPath
from pumice.model.text import escaped
from pumice.store.run_errors import InvalidOption
from pumice.store.run_names import parse_pod

# A run ends with no colon, so the first colon after the pod begins the path. `./a:b` and `/a:b` are local.
_IN_POD: Final = re.compile(r"(?P<pod>(?:[^./][^/]*(?<!:)/)?[^./][^/:]*):(?P<path>.*)", re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="[RUN/]TASK-INDEX:PATH, or a local file or directory")
    parser.add_argument("target", metavar="TARGET", help="a local path, or [RUN/]TASK-INDEX:PATH")
    parser.add_argument("-c", "--container", default="", metavar="C", help="the container; default the pod's first")
    add_namespace(parser)


async def _copy(backend: Backend, args: argparse.Namespace) -> int:
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


cp = RunCommand(add_arguments, _copy, waits=lambda _args: False, feature=Feature.COPY)


def _in_pod(text: str) -> tuple[str, str] | None:
    """Return pod and path; None for a local path."""
    found = _IN_POD.fullmatch(text)
    if found is None or parse_pod(found["pod"]) is None:
        return None
    return found["pod"], found["path"] or "."
