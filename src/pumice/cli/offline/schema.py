"""`pumice schema`: prints a JSON Schema of the Job file, for editors and CI."""

from __future__ import annotations

import argparse
import json
import sys

from pumice.model.json_schema import job_schema
from pumice.runtime.kubernetes_types import kubernetes_types


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """The command has no arguments."""


def run(_args: argparse.Namespace) -> int:
    json.dump(job_schema(kubernetes_types().types), sys.stdout, indent=2)
    print()
    return 0
