"""`pumice install`: prints the manifests that install Pumice on a cluster; only `--check` contacts one."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from typing import TYPE_CHECKING, Final

from pumice.cli.output import style_for
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.engines.kubernetes.install.manifests import InstallOptions, manifests
from pumice.model.syntax import dns_label_error
from pumice.yaml.writer import write_yaml

if TYPE_CHECKING:
    from pumice.engines.kubernetes.install.checks.check_result import CheckResult

BAD_INPUT: Final = 2
_SUBJECT_WIDTH: Final = 22
# The flags that are about a cluster.
_CHECK_FLAGS: Final = ("kubeconfig", "context", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--namespace", metavar="NS", default=names.NAMESPACE, help=f"namespace to install in; default {names.NAMESPACE}"
    )
    parser.add_argument("--gang", choices=names.GANGS, default="auto", help="scheduler that starts pods as a gang")
    parser.add_argument("--no-webhook", action="store_true", help="leave out the webhook; the controller checks jobs")
    parser.add_argument("--crds-only", action="store_true", help="print only the CustomResourceDefinitions")
    parser.add_argument("--image", metavar="NAME", help="image of controller and webhook")
    parser.add_argument("--check", action="store_true", help="check a cluster instead, and report what is missing")
    parser.add_argument("--kubeconfig", metavar="FILE", help="with --check: kubeconfig of the cluster")
    parser.add_argument("--context", metavar="NAME", help="with --check: context of the kubeconfig")
    parser.add_argument("--json", action="store_true", help="with --check: one JSON object per line")


def run(args: argparse.Namespace) -> int:
    if message := _bad_input(args):
        print(f"pumice install: {message}", file=sys.stderr)
        return BAD_INPUT
    if args.check:
        return _check(args)
    if args.crds_only:
        write_yaml(custom_resources(volcano=args.gang == "volcano"), sys.stdout)
        return 0
    options = InstallOptions(args.image or _own_image(), args.namespace, args.gang, webhook=not args.no_webhook)
    write_yaml(manifests(options), sys.stdout)
    return 0


def _bad_input(args: argparse.Namespace) -> str:
    if message := dns_label_error(args.namespace):
        return f"--namespace {args.namespace}: {message}"
    if args.namespace == "default" or args.namespace.startswith("kube-"):
        return f"--namespace {args.namespace}: must be a namespace for Pumice alone, such as {names.NAMESPACE}"
    if not args.check and any(getattr(args, flag) for flag in _CHECK_FLAGS):
        flags = ", ".join(f"--{flag}" for flag in _CHECK_FLAGS)
        return f"{flags} need --check; manifests are printed without contacting a cluster"
    return ""


def _own_image() -> str:
    from importlib.metadata import version

    return f"pumice:{version('pumice')}"


def _check(args: argparse.Namespace) -> int:
    """Return 0 if everything is ok, 1 if something is missing or unknown, 2 if the cluster does not answer."""
    import asyncio

    from pumice.engines.kubernetes.api.client import Client
    from pumice.engines.kubernetes.api.errors import ApiError
    from pumice.engines.kubernetes.auth.access import AccessError, find_access
    from pumice.engines.kubernetes.install.checks.checklist import check_cluster

    async def check() -> bool:
        all_ok = True
        async with Client(access) as client:
            async for result in check_cluster(
                client, args.namespace, args.gang, webhook=not args.no_webhook, now=dt.datetime.now(dt.UTC)
            ):
                _print(result, as_json=args.json)
                all_ok = all_ok and result.is_ok
        return all_ok

    try:
        access = find_access(args.kubeconfig, args.context)
        print(f"{access.server} ({access.description})", file=sys.stderr)
        return 0 if asyncio.run(check()) else 1
    except (AccessError, ApiError) as error:
        print(f"pumice install: {error}", file=sys.stderr)
        return BAD_INPUT


def _print(result: CheckResult, *, as_json: bool) -> None:
    if as_json:
        fields = {"check": result.subject, "state": result.state.value, "found": result.found, "todo": result.hint}
        print(json.dumps(fields, ensure_ascii=False), flush=True)
        return
    state = f"{result.state.value:8}"
    if not result.is_ok:
        state = style_for(sys.stdout).warning(state)
    print(f"{state} {result.subject:{_SUBJECT_WIDTH}} {result.found}")
    if result.hint:
        print(f"{'':8} hint: {result.hint}", flush=True)
