"""`pumice render FILE`: exactly the objects that the controller would create, as YAML or JSON."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from pumice.admission.admit import Admitted
from pumice.cli.findings import counted, write_reports
from pumice.cli.jobfile import JobFile, load
from pumice.cli.output import style_for
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyPair, Once, claims
from pumice.model.syntax import dns_label_fault
from pumice.plugins.guard import PluginError
from pumice.plugins.owned_objects import companions
from pumice.plugins.shaping import pods
from pumice.reconcile.podgroup import pod_group
from pumice.runtime.offline_context import offline_context
from pumice.yaml.writer import write_yaml

NO_UID: Final = "00000000-0000-0000-0000-000000000000"
MADE_LATER: Final = "<made at run time>"
GIVEN: Final = "<given in the file>"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a Job file, or - for standard input")
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="form of the output; default yaml"
    )
    parser.add_argument(
        "--namespace", metavar="NS", default="", help='namespace of the objects; default: the file\'s, else "default"'
    )
    parser.add_argument("--uid", default=NO_UID, help="uid of the job, which some names are made of")
    parser.add_argument("--show-secrets", action="store_true", help="print ssh keys that the file gives")


def run(args: argparse.Namespace) -> int:
    if args.namespace and (fault := dns_label_fault(args.namespace)):
        args.parser.error(f"--namespace: {args.namespace}: {fault}")
    if fault := dns_label_fault(args.uid):
        args.parser.error(f"--uid: {args.uid}: {fault}")
    loaded = load_good(args.file)
    if loaded is None:
        return 2
    manifests = (
        manifest
        for entry in loaded.jobs
        for manifest in rendered(
            placed(entry.admitted, args.namespace, args.uid), entry.admitted, show_secrets=args.show_secrets
        )
    )
    if isinstance(sys.stdout, io.TextIOWrapper):
        # YAML and JSON are UTF-8 wherever they are written; a character that was escaped would be another value.
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        if args.output == "json":
            items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(items), indent=2).decode() + "\n")
        else:
            write_yaml(manifests, sys.stdout)
    except PluginError as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 2
    return 0


def load_good(file: str) -> JobFile | None:
    """The file's jobs; where something is wrong, that is told and there are none."""
    loaded = load(file, offline_context())
    write_reports(loaded.reports, sys.stderr, style_for(sys.stderr))
    if loaded.reports:
        print(counted(loaded.reports), file=sys.stderr)
    if not loaded.is_good:
        return None
    if not loaded.jobs:
        print(f"{file}: no Job in it", file=sys.stderr)
        return None
    return loaded


def placed(admitted: Admitted, namespace: str, uid: str) -> Job:
    """The job as it would be once an API server had stored it."""
    metadata = admitted.job.metadata
    where = namespace or metadata.namespace or "default"
    return msgspec.structs.replace(
        admitted.job, metadata=msgspec.structs.replace(metadata, namespace=where, uid=uid, resource_version="")
    )


def rendered(job: Job, admitted: Admitted, *, show_secrets: bool = False) -> Iterator[Manifest]:
    for companion in companions(job, admitted.plugins):
        yield _shown(companion, show_secrets=show_secrets) if isinstance(companion, Once) else companion
    yield from claims(job)
    yield pod_group(job)
    for pod in pods(job, admitted.plugins):
        yield pod.manifest


def _shown(once: Once, *, show_secrets: bool) -> Manifest:
    """A Secret with words in place of what nobody should find in a terminal or a file."""
    if once.given and show_secrets:
        return once.created_with(_no_keys)
    word = GIVEN if once.given else MADE_LATER
    made = once.make(_no_keys)
    return {**once.manifest, "stringData": {**dict.fromkeys(made, word), **once.manifest["stringData"]}}


def _no_keys(_kind: str) -> KeyPair:
    return KeyPair(MADE_LATER, MADE_LATER)
