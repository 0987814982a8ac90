"""The options of the Job that `run` and `init` make for a script."""

from __future__ import annotations

import argparse

from pumice.client.job_templates import FRAMEWORKS
from pumice.client.script_jobs import DEFAULT_GPUS, DEFAULT_WORKERS


def add_script_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="the name of the Job; of a script, default made from the script's; of a Job file, on a cluster only",
    )
    parser.add_argument("--workers", metavar="N", help=f"of a script: the number of ranks; default {DEFAULT_WORKERS}")
    parser.add_argument("--gpus", metavar="N", help=f"of a script: GPUs per pod; default {DEFAULT_GPUS}")
    parser.add_argument(
        "--framework", choices=FRAMEWORKS, help="of a script: default the one that it imports, else torch"
    )
