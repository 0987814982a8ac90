"""`pumice init [SCRIPT]`: writes a commented Job file that runs a script, on this machine and on a cluster."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pumice.admission.admit import admit
from pumice.admission.program_arguments import leave_out_secrets
from pumice.cli.errors import refuse
from pumice.cli.script_arguments import add_script_arguments
from pumice.client.job_templates import FRAMEWORKS
from pumice.client.script_jobs import (
    DEFAULT_GPUS,
    DEFAULT_WORKERS,
    JOB_SUFFIXES,
    ScriptOptions,
    guess,
    number_error,
    script_job,
    script_path,
    script_warnings,
)
from pumice.model.suggestions import did_you_mean
from pumice.model.text import printable
from pumice.runtime.offline_context import offline_context
from pumice.yaml.reader import parse

STDOUT: Final = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="the program to run; without it, init asks")
    add_script_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write, or - for stdout; default NAME.yaml")
    help_text = "after --: arguments of the program, for the file"
    parser.add_argument("args", nargs="*", default=[], metavar="ARGS", help=help_text)


def run(args: argparse.Namespace) -> int:
    if not args.script and not _ask_all(args):
        hint = f"pumice init train.py [--workers 4] [--gpus 1] [--framework {'|'.join(FRAMEWORKS)}] [-- --lr 0.1]"
        return refuse("pumice init: which script?", hint)
    options = ScriptOptions(args.name, args.workers, args.gpus, args.framework)
    if problems := list(_problems(args, options)):
        return refuse("\n".join(problems))
    words, secrets = leave_out_secrets(args.args or ())
    is_file = args.output != STDOUT
    job = script_job(args.script, options, tuple(words), args.output or "" if is_file else "")
    file = args.output if args.output and is_file else f"{job.name}.yaml"
    if problems := list(_findings(job.text)) or list(_write(file, job.text) if is_file else ()):
        return refuse("\n".join(problems))
    if not is_file:
        print(job.text, end="")
    print(f"{file}: written for {job.framework}{job.why}", f"{file}: {job.ranks}", sep="\n", file=sys.stderr)
    for warning in script_warnings(args.script):
        print(f"{script_path(args.script)}: warning: {warning}", file=sys.stderr)
    next_step = f"pumice run {shlex.quote(file)}{' --fit' if int(args.gpus or 0) else ''}"
    if left_out := " ".join(secrets):
        print(f"{file}: warning: {left_out} is left out: type it after -- of pumice run", file=sys.stderr)
        next_step += f" -- {left_out}"
    if is_file:
        print(f"next: {next_step}", file=sys.stderr)
    return 0


def _ask_all(args: argparse.Namespace) -> bool:
    """Ask for what is not given. False if nobody can be asked, or answers."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        args.script = _ask("Script to run", "", _script_error)
        args.workers = args.workers or _ask("Workers", DEFAULT_WORKERS, lambda text: number_error(text, least=1))
        args.gpus = args.gpus or _ask("GPUs per pod", DEFAULT_GPUS, lambda text: number_error(text, least=0))
        if not args.framework:
            guessed, _ = guess(Path(args.script))
            args.framework = _ask(f"Framework ({', '.join(FRAMEWORKS)})", guessed, _framework_error)
    except EOFError:
        print(file=sys.stderr)
        return False
    return True


def _ask(question: str, default: str, error_of: Callable[[str], str]) -> str:
    """Ask until the answer is valid. Raises EOFError."""
    while True:
        print(f"{question}{f' [{default}]' if default else ''}: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        answer = line.strip() or default
        error = error_of(answer)
        if not error:
            return answer
        print(f"  {error}", file=sys.stderr)


def _problems(args: argparse.Namespace, options: ScriptOptions) -> Iterator[str]:
    """What is wrong with the arguments, all at once."""
    if error := _script_error(args.script):
        yield f"SCRIPT: {printable(args.script)}: {error}"
    yield from options.problems()
    if args.output is not None and not args.output.isprintable():
        yield f"-o: {printable(args.output)}: must not contain control characters"


def _script_error(script: str) -> str:
    if not script:
        return "name a script, such as train.py"
    if not script.isprintable():
        return "must not contain control characters"
    if Path(script).suffix.lower() in JOB_SUFFIXES:
        return "has the name of a Job file; name a script, such as train.py, and the file to write with -o"
    return "is a directory; name a script in it" if os.path.isdir(script) else ""


def _framework_error(text: str) -> str:
    if text in FRAMEWORKS:
        return ""
    return f"{did_you_mean(text, FRAMEWORKS)} there are {', '.join(FRAMEWORKS)}".lstrip()


def _findings(text: str) -> Iterator[str]:
    """What is wrong with the Job: a name may be too long for its pods."""
    [(document, _)], problems = parse(text, "")
    yield from (problem.text for problem in problems)
    if isinstance(document, dict):
        for finding in admit(document, offline_context()).findings:
            hint = f"\n  hint: {finding.hint}" if finding.hint else ""
            yield f"pumice init: {finding.path}: {finding.message}{hint}"


def _write(file: str, text: str) -> Iterator[str]:
    """Write a new file; what is there stays."""
    try:
        with open(file, "x", encoding="utf-8") as output:
            output.write(text)
    except FileExistsError:
        yield f"{file}: exists already, and is not overwritten\n  hint: remove it, or name another file with -o FILE"
    except OSError as error:
        yield f"{file}: {(error.strerror or str(error)).lower()}"
