"""`pumice validate FILE...`: prints every finding, with path and line; with `--on`, also those of a cluster."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pumice.cli.jobfile import write_reports
from pumice.client.job_files import NO_JOB, JobFile, Report, counted, documents, in_order, load
from pumice.client.view.output import fit, style_for
from pumice.model.text import plural
from pumice.runtime.offline_context import offline_context

if TYPE_CHECKING:
    from pumice.client.backend import Backend


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Job file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object per finding")
    parser.add_argument("--volcano", action="store_true", help="also warn about fields that Volcano does not know")
    where = "also ask this cluster, a context of the kubeconfig, if it would take the Jobs; nothing is created there"
    parser.add_argument("--on", "--context", default="", metavar="CONTEXT", help=where)
    parser.add_argument(
        "-n", "--namespace", default="", metavar="NS", help="with --on; default the Job's, else the context's"
    )
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="with --on; default as for kubectl")


def run(args: argparse.Namespace) -> int:
    if not (args.on or args.namespace or args.kubeconfig):
        return _validate(args, [load(file, offline_context(portable=args.volcano)) for file in args.files])
    # PUMICE_ON does not count: what checks files in CI must not reach for a cluster by itself.
    from pumice.cli.runs.arguments import closing, finish, guarded, open_named

    def work() -> int:
        files = [load(file, offline_context(portable=args.volcano)) for file in args.files]
        backend = open_named(args)
        finish(closing(backend, _ask(backend, files, args.namespace)), waits=True)
        return _validate(args, files)

    return guarded(work)


def _validate(args: argparse.Namespace, files: list[JobFile]) -> int:
    reports = []
    for loaded in files:
        write_reports(loaded.reports, sys.stdout, style_for(sys.stdout), as_json=args.json)
        reports += loaded.reports
        if loaded.is_good and not loaded.jobs:
            print(f"{loaded.name}: {NO_JOB}", file=sys.stderr)
        for entry in loaded.jobs if loaded.is_good else ():
            job, where = entry.admitted.job, f" on {args.on}" if args.on else ""
            good = f"{loaded.name}: {job.name}: good{where} ({plural(job.total_replicas, 'pod')})"
            print(fit(good, sys.stderr), file=sys.stderr)
    if reports:
        print(counted(reports), file=sys.stderr)
    # A wrong path in CI must not pass.
    return 0 if all(loaded.is_good for loaded in files) and any(loaded.jobs for loaded in files) else 2


async def _ask(backend: Backend, files: list[JobFile], namespace: str) -> None:
    """Add what a cluster finds in the Jobs that are valid as such. Raises RunError."""
    for loaded in files:
        if not loaded.is_good:
            continue
        given = [manifest for manifest, _ in documents(loaded)]
        found = []
        for entry in loaded.jobs:
            findings = await backend.validate(entry.admitted, given, namespace)
            found += [Report.of_finding(finding, entry.document) for finding in findings]
        loaded.reports = in_order([*loaded.reports, *found])
