"""`pumice validate FILE...`: prints every finding, with path and line; needs no cluster."""

from __future__ import annotations

import argparse
import sys

from pumice.cli.findings import write_reports
from pumice.client.job_files import NO_JOB, JobFile, load
from pumice.client.reports import counted
from pumice.client.view.output import fit, style_for
from pumice.runtime.offline_context import offline_context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Job file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object per finding")
    parser.add_argument("--volcano", action="store_true", help="also warn about fields that Volcano does not know")


def run(args: argparse.Namespace) -> int:
    context = offline_context(portable=args.volcano)
    good, jobs = True, 0
    reports = []
    for file in args.files:
        loaded = load(file, context)
        write_reports(loaded.reports, sys.stdout, style_for(sys.stdout), as_json=args.json)
        reports += loaded.reports
        good = good and loaded.is_good
        jobs += len(loaded.jobs)
        _print_valid_jobs(loaded)
    if reports:
        print(counted(reports), file=sys.stderr)
    # A wrong path in CI must not pass.
    return 0 if good and jobs else 2


def _print_valid_jobs(loaded: JobFile) -> None:
    if not loaded.is_good:
        return
    if not loaded.jobs:
        print(f"{loaded.name}: {NO_JOB}", file=sys.stderr)
    for entry in loaded.jobs:
        job = entry.admitted.job
        count = job.total_replicas
        good = f"{loaded.name}: {job.name}: good ({count} pod{'' if count == 1 else 's'})"
        print(fit(good, sys.stderr), file=sys.stderr)
