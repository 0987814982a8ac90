"""`pumice install`: the manifests that put Pumice on a cluster, printed; only `--check` contacts one."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pumice.cli.output import style_for
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.engines.kubernetes.install.manifests import Wishes, manifests
from pumice.model.syntax import dns_label_fault
from pumice.yaml.writer import write_yaml

if TYPE_CHECKING:
    from pumice.engines.kubernetes.install.checks.check_result import Check

BAD_INPUT: Final = 2
_SUBJECT_WIDTH: Final = 22
# Only these words of a command line are about a cluster.
_FOR_CHECK: Final = ("kubeconfig", "context", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--namespace", metavar="NS", default=names.NAMESPACE, help="where to install (pumice-system)")
    parser.add_argument("--gang", choices=names.GANGS, default="auto", help="who starts the pods of a job together")
    parser.add_argument(
        "--no-webhook", action="store_true", help="without the webhook; the controller checks jobs, too"
    )
    parser.add_argument("--crds-only", action="store_true", help="only the definitions of Job and Command")
    parser.add_argument("--image", metavar="NAME", help="the image that controller and webhook run")
    parser.add_argument("--check", action="store_true", help="look at a cluster instead: what it has and lacks")
    parser.add_argument("--kubeconfig", metavar="FILE", help="of --check: how to reach the cluster")
    parser.add_argument("--context", metavar="NAME", help="of --check: the context of the kubeconfig to use")
    parser.add_argument("--json", action="store_true", help="of --check: one JSON object a line")


def run(args: argparse.Namespace) -> int:
    if problem := _problem(args):
        print(f"pumice install: {problem}", file=sys.stderr)
        return BAD_INPUT
    if args.check:
        return _check(args)
    if args.crds_only:
        write_yaml(custom_resources(volcano=args.gang == "volcano"), sys.stdout)
        return 0
    wishes = Wishes(
        image=args.image or _own_image(), namespace=args.namespace, gang=args.gang, webhook=not args.no_webhook
    )
    write_yaml(manifests(wishes), sys.stdout)
    return 0


def _problem(args: argparse.Namespace) -> str:
    if fault := dns_label_fault(args.namespace):
        return f"--namespace {args.namespace}: {fault}"
    if args.namespace == "default" or args.namespace.startswith("kube-"):
        needed = f"Pumice needs a namespace of its own, which it restricts, such as {names.NAMESPACE}"
        return f"--namespace {args.namespace}: {needed}"
    if not args.check and any(getattr(args, flag) for flag in _FOR_CHECK):
        flags = ", ".join(f"--{flag}" for flag in _FOR_CHECK)
        return f"{flags} belong to --check; manifests are printed without a cluster"
    return ""


def _own_image() -> str:
    from importlib.metadata import version

    return f"pumice:{version('pumice')}"


def _check(args: argparse.Namespace) -> int:
    """0: nothing lacks. 1: something does. 2: the cluster cannot be asked."""
    import asyncio

    from pumice.engines.kubernetes.api.client import Client
    from pumice.engines.kubernetes.api.errors import ApiError
    from pumice.engines.kubernetes.auth.access import AccessError, find_access
    from pumice.engines.kubernetes.install.checks.checklist import Question, check

    async def look() -> Sequence[Check]:
        found = []
        question = Question(args.namespace, args.gang, webhook=not args.no_webhook)
        async with Client(access) as client:
            async for each in check(client, question, dt.datetime.now(dt.UTC)):
                _print(each, as_json=args.json)
                found.append(each)
        return found

    try:
        access = find_access(args.kubeconfig, args.context)
        print(f"{access.server} ({access.description})", file=sys.stderr)
        found = asyncio.run(look())
    except (AccessError, ApiError) as error:
        print(f"pumice install: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0 if all(each.is_good for each in found) else 1


def _print(check: Check, *, as_json: bool) -> None:
    if as_json:
        fields = {"check": check.subject, "state": check.state.value, "found": check.found, "todo": check.todo}
        print(json.dumps(fields, ensure_ascii=False), flush=True)
        return
    style = style_for(sys.stdout)
    state = f"{check.state.value:8}" if check.is_good else style.warning(f"{check.state.value:8}")
    print(f"{state} {check.subject:{_SUBJECT_WIDTH}} {check.found}")
    if check.todo:
        print(f"{'':8} hint: {check.todo}", flush=True)
