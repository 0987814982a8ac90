"""What the commands that read Job files share: findings on standard error, and `--gang`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO

from pumice.client.job_files import NO_JOB, JobFile, Report, counted, load
from pumice.client.view.output import Style, fit, style_for
from pumice.model.vocabulary import GANG_PROVIDERS, VOLCANO
from pumice.runtime.offline_context import offline_context


def write_reports(reports: Sequence[Report], out: TextIO, style: Style, *, as_json: bool = False) -> None:
    for report in reports:
        print(report.json() if as_json else fit(report.text(style.bold, style.warning), out), file=out)


def print_reports(reports: Sequence[Report]) -> None:
    """Print reports to standard error, and how many there are."""
    write_reports(reports, sys.stderr, style_for(sys.stderr))
    if reports:
        print(counted(reports), file=sys.stderr)


def load_reported(file: str) -> JobFile:
    """Load a file and print its findings to standard error."""
    loaded = load(file, offline_context())
    print_reports(loaded.reports)
    return loaded


def load_valid(file: str) -> JobFile | None:
    """Load a file and print its findings; None if one of them is an error or there is no Job."""
    loaded = load_reported(file)
    if not loaded.is_good:
        return None
    if not loaded.jobs:
        print(f"{file}: {NO_JOB}", file=sys.stderr)
        return None
    return loaded


def add_gang_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gang",
        choices=tuple(GANG_PROVIDERS),
        default=VOLCANO.name,
        help=f"the gang provider that starts the pods together on the cluster; default {VOLCANO.name}",
    )
