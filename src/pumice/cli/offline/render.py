"""`pumice render FILE`: prints exactly the objects that the controller creates, as YAML or JSON."""

from __future__ import annotations

import argparse
import io
import sys

import msgspec

from pumice.cli.errors import BAD_INPUT, refuse
from pumice.cli.jobfile import add_gang_argument, load_valid
from pumice.client.job_files import NO_UID, render
from pumice.model.syntax import dns_label_error
from pumice.model.vocabulary import GANG_PROVIDERS
from pumice.plugins.base import PluginError
from pumice.yaml.writer import write_yaml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a Job file, or - for standard input")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="output format; default yaml")
    parser.add_argument(
        "--namespace", metavar="NS", default="", help='namespace of the objects; default: the file\'s, else "default"'
    )
    parser.add_argument("--uid", default=NO_UID, help="uid of the Job, from which some names are derived")
    add_gang_argument(parser)
    parser.add_argument("--show-secrets", action="store_true", help="print the ssh keys that the file contains")


def run(args: argparse.Namespace) -> int:
    if args.namespace and (message := dns_label_error(args.namespace)):
        args.parser.error(f"--namespace: {args.namespace}: {message}")
    if message := dns_label_error(args.uid):
        args.parser.error(f"--uid: {args.uid}: {message}")
    loaded = load_valid(args.file)
    if loaded is None:
        return BAD_INPUT
    where = args.namespace, args.uid, GANG_PROVIDERS[args.gang]
    manifests = (each for job in loaded.jobs for each in render(job.admitted, *where, show_secrets=args.show_secrets))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # YAML and JSON are always UTF-8; escaping a character that the terminal lacks would change the value.
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        if args.output == "json":
            items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(items), indent=2).decode() + "\n")
        else:
            write_yaml(manifests, sys.stdout)
    except PluginError as error:
        return refuse(f"{args.file}: {error}")
    return 0
