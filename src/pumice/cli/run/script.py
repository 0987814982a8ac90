"""`pumice run train.py`: what `pumice init` and `pumice run` do, without writing a Job file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

from pumice.admission.admit import Admitted, admit
from pumice.client.job_files import JobFile
from pumice.client.script_jobs import ScriptOptions, is_script, script_job, script_path, script_warnings
from pumice.model.problem import Position, Problem
from pumice.runtime.offline_context import offline_context
from pumice.store.job_source import JobSource
from pumice.store.run_errors import InvalidOption
from pumice.yaml.reader import parse

ReadJob: TypeAlias = tuple[Admitted, JobSource, Sequence[JobFile]]  # the files have what it may use
_IN_A_FILE: Final = {
    "name": "write metadata.name",
    "workers": "write replicas of its tasks; --scale TASK=N overrides them",
    "gpus": "write nvidia.com/gpu in resources.limits",
    "framework": "write spec.plugins",
}


def is_script_file(args: argparse.Namespace, *, on_cluster: bool = False) -> bool:
    """Return whether FILE is a script. Raises InvalidOption if it is neither that nor a Job file."""
    if is_script(args.file):
        return True
    given = [name for name in _IN_A_FILE if getattr(args, name) is not None and not (on_cluster and name == "name")]
    if given:
        message = f"is for scripts, and {args.file} is a Job file"
        raise InvalidOption.of([Problem(message, _IN_A_FILE[name], Position(option=name)) for name in given])
    return False


def read_script(args: argparse.Namespace) -> ReadJob | None:
    """Return the Job of a script. None, with the reason on stderr, if it cannot have one."""
    options = ScriptOptions(args.name, args.workers, args.gpus, args.framework)
    problems = list(options.problems())
    if not problems:
        job = script_job(args.file, options)
        [(document, _)], _ = parse(job.text, "")
        admitted = admit(document if isinstance(document, dict) else {}, offline_context())
        problems = [f"{args.file}: {each.path}: {each.message}" for each in admitted.findings if each.is_error]
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return None
    print(f"{args.file}: {job.ranks}; runs with {job.framework}{job.why}", file=sys.stderr)
    for warning in script_warnings(args.file):
        print(f"{script_path(args.file)}: warning: {warning}", file=sys.stderr)
    return admitted, JobSource(args.file), ()
