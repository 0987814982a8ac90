"""`pumice init [SCRIPT]`: writes a commented Job file that runs a script, on this machine and on a cluster."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pumice.admission.admit import admit
from pumice.cli.offline.job_templates import FRAMEWORKS, STARTED_BY, NewJob, job_file
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import dns_label_error
from pumice.model.text import printable
from pumice.runtime.offline_context import offline_context
from pumice.yaml.reader import parse

BAD_INPUT: Final = 2
_WORKERS: Final = "2"
_GPUS: Final = "0"
_LONGEST_NAME: Final = 40  # the names of pods and Services are longer
_LONGEST_READ: Final = 1 << 20  # imports are at the beginning of a script
# By framework, the modules that need it. A script that imports several gets the first: Ray and MPI start the others.
_MODULES: Final = {
    "ray": {"ray"},
    "mpi": {"mpi4py", "horovod"},
    "torch": {"torch", "accelerate", "deepspeed", "lightning", "pytorch_lightning", "transformers"},
    "tensorflow": {"tensorflow", "keras"},
}
_IMPORT: Final = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([\w., \t]+))", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="the program to run; without it, init asks")
    parser.add_argument("--name", metavar="NAME", help="name of the Job; default: made from the script's")
    parser.add_argument("--workers", metavar="N", help=f"pods of the task worker; default {_WORKERS}")
    parser.add_argument("--gpus", metavar="N", help=f"GPUs per pod; default {_GPUS}")
    parser.add_argument("--framework", choices=FRAMEWORKS, help="default: the one that the script imports, else torch")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write; default NAME.yaml")


def run(args: argparse.Namespace) -> int:
    if not args.script and not _ask_all(args):
        print(f"pumice init: which script?\n  hint: {_usage()}", file=sys.stderr)
        return BAD_INPUT
    if problems := list(_check(args)):
        print(*problems, sep="\n", file=sys.stderr)
        return BAD_INPUT
    script = _from_here(args.script)
    name = args.name or job_name(script)
    file = args.output or f"{name}.yaml"
    job = NewJob(name, script, int(args.workers or _WORKERS), int(args.gpus or _GPUS), file)
    framework, why = (args.framework, "") if args.framework else guess(Path(script))
    text = job_file(framework, job)
    if problems := list(_findings(text)) or list(_write(file, text)):
        print(*problems, sep="\n", file=sys.stderr)
        return BAD_INPUT
    print(f"{file}: written for {framework}{why}", file=sys.stderr)
    for warning in _warnings(script):
        print(f"{script}: warning: {warning}", file=sys.stderr)
    print(f"next: pumice run {shlex.quote(file)}{' --fit' if job.gpus else ''}", file=sys.stderr)
    return 0


def job_name(script: str) -> str:
    """The name of a script without its suffix, made a name that Kubernetes accepts."""
    name = re.sub("[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"job-{name}"
    return name[:_LONGEST_NAME].strip("-")


def guess(script: Path) -> tuple[str, str]:
    """The framework that a script imports, and how that is known. The script is read, never run."""
    try:
        with script.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST_READ) if script.is_file() else ""
    except OSError:
        text = ""
    names = [name for found in _IMPORT.findall(text) for name in (found[0], *found[1].split(","))]
    modules = {name.strip().partition(".")[0].partition(" ")[0] for name in names}
    for framework, known in _MODULES.items():
        if found := sorted(modules & known):
            return framework, f", because {script} imports {found[0]}"
    others = ", ".join(FRAMEWORKS[1:-1])
    return FRAMEWORKS[0], f"; --framework chooses {others} or {FRAMEWORKS[-1]}"


def _ask_all(args: argparse.Namespace) -> bool:
    """Ask for what is not given. False if nobody can be asked, or answers."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        args.script = _ask("Script to run", "", _script_error)
        args.workers = args.workers or _ask("Workers", _WORKERS, lambda text: _number_error(text, least=1))
        args.gpus = args.gpus or _ask("GPUs per pod", _GPUS, lambda text: _number_error(text, least=0))
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


def _check(args: argparse.Namespace) -> Iterator[str]:
    """What is wrong with the arguments, all at once."""
    if error := _script_error(args.script):
        yield f"SCRIPT: {printable(args.script)}: {error}"
    for flag, text, least in (("--workers", args.workers, 1), ("--gpus", args.gpus, 0)):
        if text and (error := _number_error(text, least=least)):
            yield f"{flag}: {printable(text)}: {error}"
    if args.name is not None:
        if error := dns_label_error(args.name):
            yield f"--name: {printable(args.name)}: {error}\n  hint: for example {job_name(args.name)}"
        elif not args.name[0].isalpha():
            yield f"--name: {args.name}: must begin with a letter\n  hint: for example {job_name(args.name)}"
    if args.output is not None and not args.output.isprintable():
        yield f"-o: {printable(args.output)}: must not contain control characters"


def _script_error(script: str) -> str:
    if not script:
        return "name a script, such as train.py"
    if not script.isprintable():
        return "must not contain control characters"
    return "is a directory; name a script in it" if os.path.isdir(script) else ""


def _number_error(text: str, *, least: int) -> str:
    # Not isdecimal, which accepts the digits of all scripts.
    good = re.fullmatch("[0-9]{1,3}", text) and int(text) >= least
    return "" if good else f"must be a number from {least} to 999"


def _framework_error(text: str) -> str:
    if text in FRAMEWORKS:
        return ""
    return f"{did_you_mean(text, FRAMEWORKS)} there are {', '.join(FRAMEWORKS)}".lstrip()


def _from_here(script: str) -> str:
    """The path of a script as pods find it: relative to the working directory, which they share."""
    path = os.path.normpath(script)
    here = os.getcwd()
    return os.path.relpath(path, here) if path.startswith(f"{here}{os.sep}") else path


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


def _warnings(script: str) -> Iterator[str]:
    """What keeps the job from running in the working directory."""
    if not os.path.exists(script):
        yield "does not exist yet"
    elif not script.endswith(tuple(STARTED_BY)) and not os.access(script, os.X_OK):
        yield f"is not executable: chmod +x {shlex.quote(script)}"
    if script.startswith(("/", "..")):
        yield "is outside of the working directory, and pods may not see it: call init in its directory"


def _usage() -> str:
    return f"pumice init train.py [--workers 4] [--gpus 1] [--framework {'|'.join(FRAMEWORKS)}]"
