"""Reads the flags of `pumice run` and the `pumice.toml` beside the Job file into RunOptions; flags win."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pumice.client.run_options import reading
from pumice.client.run_options.reading import FLAGS, Flags
from pumice.engines.local.options import Isolation, Locate, Network, RunOptions, at
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.verdict import missing_module, resume_command
from pumice.model.findings import SPEC
from pumice.model.vocabulary import SUSPENDED

_NOT_FOUND: Final = 127
# The flags that may be repeated, each with its metavar and help.
_REPEATED: Final = {
    "with": ("FILE", "ConfigMaps, Secrets and claims that the job uses"),
    "image": ("NAME=PATH", "use a directory or archive as this image"),
    "entrypoint": ('IMAGE="CMD"', "the command of containers that have none, where the host serves as image"),
    "env": ("K=V", "set a variable in all containers, whatever the job sets; K alone passes on your own"),
    "env-file": ("FILE", "variables for all containers, one K=V per line"),
    "mount": ("PATH[:ro]", "mount this host path into every pod, at the same path; SRC:DST[:ro] at another"),
    "allow-host-path": ("PREFIX", "allow the job to use paths of this machine that need consent"),
    "ignore": ("RESOURCE", "run without a resource that the job asks for, such as nvidia.com/gpu"),
    "scale": ("TASK=N", "override a task's number of pods"),
    "publish": ("TASK-INDEX:PORT", "publish a pod's port on 127.0.0.1"),
    "kill": ("TASK-INDEX@30s", "kill a pod this long after the job starts, to test policies"),
}

_EPILOG: Final = """\
A pumice.toml beside FILE sets options for all runs of its jobs. The logs and
events of a run stay in ~/.local/state/pumice/runs; its header names the
directory."""
_LIMITS: Final = {
    "pids-limit": ("N", "processes that a pod may have (default 4096)"),
    "log-limit": ("2Gi", "how much of the log of a container is kept"),
    "disk-limit": ("10Gi", "stop the job when its claims, volumes and layers take more of the disk"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="a Job file, or - for standard input")
    for flag, (metavar, text) in _REPEATED.items():
        name = _destination(flag)
        parser.add_argument(f"--{flag}", dest=name, action="append", default=[], metavar=metavar, help=text)
    parser.add_argument("--workdir-read-only", action="store_true", help="pods cannot write to the working directory")
    parser.add_argument("--pull", action="store_true", help="fetch images that are not here from their registries")
    parser.add_argument("--job", metavar="NAME", help="the Job to run, where the file has several")
    parser.add_argument("-d", "--detach", action="store_true", help="run in the background; print the run's name")
    parser.add_argument(
        "--priority",
        type=int,
        metavar="N",
        help="in the queue of this machine, the highest first; default by priorityClassName and config.toml, else 0",
    )
    parser.add_argument("--hold", action="store_true", help="with -d: do not start it before `pumice resume`")
    parser.add_argument("--no-wait", action="store_true", help="refuse the job if there is no room for it now")
    parser.add_argument("--max-wait", metavar="5m", help="wait at most this long for room (exit code 2)")
    parser.add_argument("--note", metavar="TEXT", help="a remark that is recorded with the run")
    parser.add_argument(
        "--python", metavar="PATH", help="the Python of pods without an image: an interpreter or a venv"
    )
    parser.add_argument(
        "--fit", action="store_true", help="leave out devices that this machine lacks, and lower requests until it fits"
    )
    parser.add_argument(
        "--network",
        choices=[str(each) for each in Network],
        help="job: pods reach only each other; outbound (default): also what this machine reaches, but not itself, "
        "link-local and metadata addresses; all: these, too",
    )
    parser.add_argument(
        "--isolation",
        choices=[str(each) for each in Isolation],
        help="namespaces: isolated pods; process: plain processes, for machines that do not allow namespaces",
    )
    parser.add_argument(
        "--unconfined",
        action="store_true",
        help="run containers without the system call filter and no_new_privs; they protect this machine, so use it "
        "for jobs you trust",
    )
    parser.add_argument(
        "--allow-nested-namespaces",
        action="store_true",
        help="containers may make user namespaces, as containers in containers need",
    )
    for name, (metavar, text) in _LIMITS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument("--timeout", metavar="10m", help="stop the job after this time (exit code 124)")
    parser.add_argument("--keep", action="store_true", help="keep the files that pods wrote, and print where")
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")
    parser.add_argument("--timestamps", action="store_true", help="print the time before each log line")
    parser.add_argument("--no-prefix", action="store_true", help="print log lines without the names of their pods")


def _destination(flag: str) -> str:
    """Return the attribute of a repeated flag; `with` is a word of Python."""
    return "documents" if flag == "with" else flag.replace("-", "_")


def read_options(args: argparse.Namespace, plugins: Sequence[str] = ()) -> RunOptions:
    """Raises InvalidOption."""
    return reading.read_options(Flags(**{each: getattr(args, each) for each in FLAGS}), plugins, os.environ)


def typed_again(args: argparse.Namespace, *more: str) -> str:
    """Return the command line of this run without its timeout, with additions."""
    words = ["pumice", "run", args.file]
    for flag in _REPEATED:
        words += [word for value in getattr(args, _destination(flag)) for word in (f"--{flag}", value)]
    words += [] if args.network is None else ["--network", args.network]
    words += [] if args.isolation is None or "--isolation" in more else ["--isolation", args.isolation]
    words += ["--python", args.python] if args.python and "--python" not in more else []
    words += ["--job", args.job] if args.job else []
    words += ["--note", args.note] if args.note else []
    words += ["--pull"] if args.pull and "--pull" not in more else []
    words += ["--fit"] if args.fit and "--fit" not in more else []
    for flag in _LIMITS:
        value = getattr(args, flag.replace("-", "_"))
        words += [] if value is None else [f"--{flag}", value]
    words += ["--workdir-read-only"] if args.workdir_read_only else []
    words += ["--unconfined"] if args.unconfined else []
    words += ["--allow-nested-namespaces"] if args.allow_nested_namespaces else []
    return shlex.join([*words, *more])


def same_command(args: argparse.Namespace, *more: str) -> str:
    """Return the whole command line of this run, with additions."""
    own = [] if args.timeout is None else ["--timeout", args.timeout]
    own += [
        flag
        for flag in ("--keep", "--json", "--timestamps", "--no-prefix")
        if getattr(args, flag[2:].replace("-", "_"))
    ]
    return typed_again(args, *own, *more)


def next_step(args: argparse.Namespace, locate: Locate, outcome: Outcome) -> str:
    """Return what to type after a run that did not complete."""
    look = outcome.look
    missing = missing_module(outcome.blamed.end.last_line) if outcome.blamed is not None else ""
    if missing and outcome.host_image and outcome.reason != SUSPENDED:
        this = f"this was {outcome.python}" if outcome.python else "no Python was found here"
        return f"{typed_again(args, '--python', 'PATH')}     PATH has {missing}; {this}"
    if resume := resume_command(outcome):
        return resume
    if outcome.stop is not None:
        return look or typed_again(args, "--keep")
    if outcome.reason == SUSPENDED:
        return f"{typed_again(args)}     after suspend is set to false{at(locate, SPEC / 'suspend')}"
    if outcome.first is not None and outcome.unshared:
        path = outcome.unshared
        return f"{typed_again(args, '--mount', f'{path}:ro')}     {path} exists here, and pods do not see it"
    if outcome.first is not None and outcome.misses_project:
        there = argparse.Namespace(**{**vars(args), "file": Path(args.file).name})
        directory = os.path.relpath(outcome.misses_project)
        return f"cd {shlex.quote(directory)} && {typed_again(there)}     the file is beside the Job file, not here"
    if outcome.first is not None and outcome.misses_workdir:
        path = outcome.misses_workdir
        return f"{typed_again(args, '--mount', f'.:{path}')}     the file is in this directory, not in {path}"
    # A command that the shell did not find counts as well.
    if outcome.first is not None and outcome.first.end.exit_code == _NOT_FOUND and outcome.host_image:
        image = outcome.host_image
        again = typed_again(args, "--image", f"{image}=PATH")
        return f"{again}     PATH has the image's files; `pumice image pull {image}` fetches them"
    return look or f"{typed_again(args, '--keep')}     keeps the pods' files"
