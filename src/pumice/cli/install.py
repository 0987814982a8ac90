"""`pumice install`: the manifests that put Pumice on a cluster, printed; nothing is contacted."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.yaml_writer import write_yaml
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.runtime.kubernetes_types import kubernetes_types

GANGS = ("auto", "volcano", "native", "coscheduling", "none")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gang", choices=GANGS, default="auto", help="who schedules the pods of a job together")
    parser.add_argument("--crds-only", action="store_true", help="only the custom resources")


def run(args: argparse.Namespace) -> int:
    write_yaml(custom_resources(kubernetes_types().types, volcano=args.gang == "volcano"), sys.stdout)
    return 0
