"""`pumice cp POD:PATH LOCAL | LOCAL POD:PATH`: copies files out of a pod, or into a running pod."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from pumice.cli.runs.arguments import FAILED, add_namespace, client_of, guarded
from pumice.client.pods.copying import copy_from, copy_to
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.runs.run_names import parse_pod
from pumice.model.text import escaped

# A run ends with no colon, so the first colon after the pod begins the path. `./a:b` and `/a:b` are local.
_IN_POD: Final = re.compile(r"(?P<pod>(?:[^./][^/]*(?<!:)/)?[^./][^/:]*):(?P<path>.*)", re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="[RUN/]TASK-INDEX:PATH, or a local file or directory")
    parser.add_argument("target", metavar="TARGET", help="a local path, or [RUN/]TASK-INDEX:PATH")
    parser.add_argument("-c", "--container", default="", metavar="C", help="the container; default the pod's first")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _copy(args))


def _copy(args: argparse.Namespace) -> int:
    source, target = _in_pod(args.source), _in_pod(args.target)
    if (source is None) == (target is None):
        raise InvalidOption(
            f"{args.source} {args.target}: one of them must be in a pod",
            "pumice cp worker-0:/data/model.pt . copies out of a pod, pumice cp model.pt worker-0:/data into it",
        )
    client = client_of(args)
    if source is not None:
        stored, pod = client.find_pod(source[0])
        skipped = copy_from(stored, pod, source[1], Path(args.target), args.container)
    elif target is not None:
        stored, pod = client.find_pod(target[0])
        skipped = copy_to(stored, Path(args.source), pod, target[1], args.container)
    for each in skipped:
        print(f"not copied: {escaped(each.path)}: {escaped(each.why)}", file=sys.stderr)
    return FAILED if any(each.error for each in skipped) else 0


def _in_pod(text: str) -> tuple[str, str] | None:
    """Return pod and path; None for a local path."""
    found = _IN_POD.fullmatch(text)
    if found is None or parse_pod(found["pod"]) is None:
        return None
    return found["pod"], found["path"] or "."
