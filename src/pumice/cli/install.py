"""`pumice install`: the manifests that put Pumice on a cluster, printed; only `--check` contacts one."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.yaml_writer import write_yaml
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.engines.kubernetes.install.manifests import Wishes, manifests
from pumice.model.syntax import dns_label_fault
from pumice.runtime.kubernetes_types import kubernetes_types


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--namespace", metavar="NS", default=names.NAMESPACE, help="where to install (pumice-system)")
    parser.add_argument("--gang", choices=names.GANGS, default="auto", help="who starts the pods of a job together")
    parser.add_argument(
        "--no-webhook", action="store_true", help="without the webhook; the controller checks jobs, too"
    )
    parser.add_argument("--crds-only", action="store_true", help="only the definitions of Job and Command")
    parser.add_argument("--image", metavar="NAME", help="the image that controller and webhook run")


def run(args: argparse.Namespace) -> int:
    kubernetes = kubernetes_types().types
    if args.crds_only:
        write_yaml(custom_resources(kubernetes, volcano=args.gang == "volcano"), sys.stdout)
        return 0
    if problem := _unfit(args.namespace):
        print(f"pumice install: --namespace {args.namespace}: {problem}", file=sys.stderr)
        return 2
    wishes = Wishes(
        image=args.image or _own_image(), namespace=args.namespace, gang=args.gang, webhook=not args.no_webhook
    )
    write_yaml(manifests(wishes, kubernetes), sys.stdout)
    return 0


def _unfit(namespace: str) -> str:
    if fault := dns_label_fault(namespace):
        return fault
    if namespace == "default" or namespace.startswith("kube-"):
        return f"Pumice needs a namespace of its own, which it restricts, such as {names.NAMESPACE}"
    return ""


def _own_image() -> str:
    from importlib.metadata import version

    return f"pumice:{version('pumice')}"
