"""`pumice install`: prints the manifests that install Pumice; only `--check` and `--upgrade` contact a cluster."""

from __future__ import annotations

import argparse
import datetime as dt
import ipaddress
import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from pumice.cli.errors import refuse
from pumice.client.view.output import style_for
from pumice.engines.kubernetes.gangs.choice import CHOICES
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.engines.kubernetes.install.manifests import InstallOptions, manifests
from pumice.model import VERSION
from pumice.model.syntax import dns_label_error
from pumice.yaml.writer import write_yaml

if TYPE_CHECKING:
    from pumice.engines.kubernetes.api.client import Client

_SUBJECT_WIDTH: Final = 22


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--namespace", metavar="NS", help=f"namespace to install in; default {names.NAMESPACE}")
    parser.add_argument("--gang", choices=CHOICES, help="scheduler that starts pods as a gang; default auto")
    parser.add_argument("--no-webhook", action="store_true", help="leave out the webhook; the controller checks jobs")
    parser.add_argument("--crds-only", action="store_true", help="print only the CustomResourceDefinitions")
    parser.add_argument("--image", metavar="NAME", help="image of controller and webhook; the cluster must have it")
    parser.add_argument(
        "--network-policy",
        action="store_true",
        help="add NetworkPolicies: reviews only from the API server; needs --apiserver-cidr",
    )
    parser.add_argument(
        "--apiserver-cidr",
        metavar="CIDR",
        action="append",
        default=[],
        help="with --network-policy: addresses of the API server, such as 192.0.2.10/32; may be repeated",
    )
    parser.add_argument(
        "--keep-log-tails",
        action="store_true",
        help="let the controller keep the last lines of failed pods before it deletes them; it may then read logs",
    )
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="keep namespace, gang, images, replicas and flags that the cluster has, but for those given here",
    )
    parser.add_argument("--check", action="store_true", help="check a cluster instead, and report what is missing")
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="with --check or --upgrade: kubeconfig of the cluster; default as kubectl"
    )
    parser.add_argument("--context", metavar="NAME", help="with --check or --upgrade: context of the kubeconfig")
    parser.add_argument("--json", action="store_true", help="with --check: one JSON object per line")


def run(args: argparse.Namespace) -> int:
    """Return 1 only for a check with findings, 2 for bad input or a cluster that does not answer."""
    if message := _bad_input(args):
        return refuse(f"pumice install: {message}")
    if args.check:
        return _on_cluster(args, _check)
    if args.upgrade:
        return _on_cluster(args, _upgrade)
    gang = args.gang or "auto"
    if args.crds_only:
        write_yaml(custom_resources(volcano=gang == "volcano"), sys.stdout)
        return 0
    image = args.image or f"pumice:{VERSION}"
    if not args.image:
        _warn(
            f"no --image: the pods use {image}, which your nodes must have already; build and push the image "
            "(docs/guides/install.md) and add --image NAME, or keep that of an installation with --upgrade"
        )
    options = InstallOptions(
        image,
        args.namespace or names.NAMESPACE,
        gang,
        webhook=not args.no_webhook,
        keep_log_tails=args.keep_log_tails,
        api_servers=_ranges(args),
    )
    write_yaml(manifests(options), sys.stdout)
    return 0


def _bad_input(args: argparse.Namespace) -> str:
    if args.namespace is not None:
        if message := dns_label_error(args.namespace):
            return f"--namespace {args.namespace}: {message}"
        if args.namespace == "default" or args.namespace.startswith("kube-"):
            return f"--namespace {args.namespace}: must be a namespace for Pumice alone, such as {names.NAMESPACE}"
    if args.json and not args.check:
        return "--json needs --check"
    if (args.kubeconfig or args.context) and not (args.check or args.upgrade):
        return "--kubeconfig and --context need --check or --upgrade; without them no cluster is contacted"
    if args.upgrade and (args.check or args.crds_only or args.no_webhook):
        return "--upgrade keeps what is installed; it cannot be combined with --check, --crds-only or --no-webhook"
    return _bad_network_policy(args)


def _bad_network_policy(args: argparse.Namespace) -> str:
    if args.network_policy and not args.apiserver_cidr:
        return (
            "--network-policy needs --apiserver-cidr CIDR, the addresses from which the API server calls the webhook: "
            "no selector matches an API server on the network of its node"
        )
    if args.apiserver_cidr and not args.network_policy:
        return "--apiserver-cidr needs --network-policy"
    if args.network_policy and (args.check or args.crds_only):
        return "--network-policy cannot be combined with --check or --crds-only"
    for cidr in args.apiserver_cidr:
        try:
            ipaddress.ip_network(cidr)
        except ValueError:
            return f"--apiserver-cidr {cidr}: must be a range of addresses, such as 192.0.2.10/32 or 192.0.2.0/24"
    return ""


def _ranges(args: argparse.Namespace) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(cidr)) for cidr in args.apiserver_cidr)


def _warn(message: str) -> None:
    print(f"pumice install: warning: {message}", file=sys.stderr)


def _on_cluster(args: argparse.Namespace, work: Callable[[Client, argparse.Namespace], Awaitable[int]]) -> int:
    """Return the exit code of `work`, 2 if the cluster does not answer."""
    import asyncio

    from pumice.engines.kubernetes.api.client import Client
    from pumice.engines.kubernetes.api.errors import ApiError
    from pumice.engines.kubernetes.auth.access import AccessError, find_access
    from pumice.engines.kubernetes.install.installation import InstallationError

    async def connected() -> int:
        async with Client(access) as client:
            return await work(client, args)

    try:
        access = find_access(args.kubeconfig, args.context)
        print(f"{access.server} ({access.description})", file=sys.stderr)
        return asyncio.run(connected())
    except (AccessError, ApiError, InstallationError) as error:
        return refuse(f"pumice install: {error}", error.hint if isinstance(error, InstallationError) else "")


async def _upgrade(client: Client, args: argparse.Namespace) -> int:
    """Print the manifests of this version with what the operator chose for the installed one."""
    from pumice.engines.kubernetes.install.installation import InstallationError, find_installation

    installation = await find_installation(client, args.namespace or "")
    if installation is None:
        found = f"in namespace {args.namespace}" if args.namespace else "on this cluster"
        raise InstallationError(
            f"Pumice is not installed {found}",
            "install it: pumice install --image NAME | kubectl apply --server-side -f -",
        )
    options = installation.options(args.image or "", args.gang or "")
    tails = args.keep_log_tails or options.keep_log_tails
    options = msgspec.structs.replace(options, keep_log_tails=tails, api_servers=_ranges(args))
    for component, kept in options.kept.items():
        flags = f", {' '.join(kept.flags)}" if kept.flags else ""
        print(f"{component}: {kept.replicas} replicas, image {kept.image}{flags}", file=sys.stderr)
    kept_logs = ", log tails are kept" if tails else ""
    print(f"namespace {options.namespace}, gang {options.gang}{kept_logs}", file=sys.stderr)
    if not args.image:
        _warn("the images stay; add --image NAME to upgrade the programs")
    write_yaml(manifests(options), sys.stdout)
    return 0


async def _check(client: Client, args: argparse.Namespace) -> int:
    """Return 0 if everything is ok, 1 if something is missing or unknown."""
    from pumice.engines.kubernetes.install.checks.checklist import check_cluster, find_target

    namespace, gang, webhook = args.namespace or "", args.gang or "", not args.no_webhook
    target = await find_target(client, namespace=namespace, gang=gang, webhook=webhook, log_tails=args.keep_log_tails)
    code = 0
    async for result in check_cluster(client, target, dt.datetime.now(dt.UTC)):
        if args.json:
            fields = {"check": result.subject, "state": result.state.value, "found": result.found, "todo": result.hint}
            print(json.dumps(fields, ensure_ascii=False), flush=True)
        else:
            state = f"{result.state.value:8}"
            state = state if result.is_ok else style_for(sys.stdout).warning(state)
            print(f"{state} {result.subject:{_SUBJECT_WIDTH}} {result.found}")
            if result.hint:
                print(f"{'':8} hint: {result.hint}", flush=True)
        code = code if result.is_ok else 1
    return code
