"""Reads the flags of `pumice run` and the `pumice.toml` beside the Job file into RunOptions; flags win."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from pumice.cli.runs.arguments import add_context
from pumice.cli.script_arguments import add_script_arguments
from pumice.client.run_options.row import Group
from pumice.client.run_options.table import ROWS, option_name
from pumice.diagnosis.failure_lines import missing_module
from pumice.model.findings import SPEC
from pumice.model.job import Job
from pumice.model.problem import FLAGS, Option, flag_words
from pumice.model.text import escaped, shown_words
from pumice.model.vocabulary import SUSPENDED
from pumice.store.options import Locate, RunOptions, at
from pumice.store.run_end import RunEnded
from pumice.store.settings import ExtraMount

_NOT_FOUND: Final = 127
_EPILOG: Final = """\
A pumice.toml beside FILE sets options for all runs of its jobs. The logs and
events of a run stay in ~/.local/state/pumice/runs; its header names the
directory."""
_REPEATED: Final = frozenset(option_name(name) for name, row in ROWS.items() if row.kind.action == "append")
_SHOWN: Final = {  # the flags that say how a run is shown
    "json": "print one JSON object per event",
    "timestamps": "print the time before each log line",
    "no_prefix": "print log lines without the names of their pods",
}
# Flags of one run, and of how it is shown.
_ONCE: Final = (*(name for name, row in ROWS.items() if row.once), *_SHOWN)
_WHERE: Final = ("on", "kubeconfig", "namespace")
_OF_SCRIPT: Final = ("name", "workers", "gpus", "framework")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="a Job file, a script, or - for a Job on standard input")
    groups = {group: parser.add_argument_group(group) for group in Group}
    add_script_arguments(groups[Group.PROGRAM])
    for name, row in ROWS.items():
        if not row.has_flag:
            continue
        kind = row.kind
        action, valued = kind.action, dict[str, Any](metavar=row.metavar, type=kind.type)
        if action == "store_true":
            valued = {}
        elif action == "optional":
            action, valued = "store", {"metavar": row.metavar, "nargs": "?", "const": ""}
        elif kind.choices:
            valued = {"choices": kind.choices}
        group = parser if row.group is None else groups[row.group]
        flag = FLAGS.name(option_name(name))
        group.add_argument(flag, dest=name, action=action, default=None, help=row.help, **valued)
    add_context(groups[Group.CLUSTER])
    groups[Group.CLUSTER].add_argument(
        "-n", "--namespace", default="", metavar="NS", help="the namespace; default that of the Job, else the context's"
    )
    parser.set_defaults(all_namespaces=False)
    runs, shown = groups[Group.PROGRAM], groups[Group.SHOWN]
    runs.add_argument("--job", metavar="NAME", help="the Job to run, where the file has several")
    runs.add_argument("-d", "--detach", action="store_true", help="run in the background; print the run's name")
    for name, text in _SHOWN.items():
        shown.add_argument(FLAGS.name(option_name(name)), action="store_true", help=text)
    parser.add_argument(
        "args",
        nargs="*",
        default=[],
        metavar="ARGS",
        help="after --: arguments of the program, which go into its command",
    )


def read_options(
    args: argparse.Namespace, plugins: Sequence[str] = (), *, on_cluster: bool = False, of_script: bool = False
) -> RunOptions:
    """Raises InvalidOption."""
    from pumice.client.run_options import reading

    given = {name: getattr(args, name) for name in ROWS}
    if of_script:
        given["name"] = None  # it is in the Job of the script
    return reading.read_options(given, args.file, plugins, os.environ, on_cluster=on_cluster)


def with_code_of(job: Job, options: RunOptions) -> RunOptions:
    """Fetch the code of a Job that `get -o yaml` printed from a cluster, unless other code is named. Raises RunError.

    Pods have it in place of the working directory, and where they had it there.
    """
    from pumice.client.backends import fetch_code

    is_named = options.cluster is not None and options.cluster.code is not None
    code = None if is_named else fetch_code(job)
    if code is None:
        return options
    print(f"the code of {job.name} on {code.origin} is in {code.directory}", file=sys.stderr)
    if options.cluster is not None:
        return replace(options, cluster=replace(options.cluster, code=code.directory))
    settings = options.settings
    settings = replace(
        settings,
        workdir=code.directory,
        share_workdir=True,
        workdir_environment=None,
        workdir_read_only=settings.workdir_read_only and settings.workdir_environment is None,
        mounts=(*settings.mounts, *(ExtraMount(code.directory, at=target) for target in code.targets)),
        allowed=(*settings.allowed, code.directory),
    )
    return replace(options, settings=settings)


def typed_again(args: argparse.Namespace, *more: Option, whole: bool = False) -> str:
    """Return the command line of this run, with additions; unless `whole`, without what is about one run."""
    replaced = {option.name for option in more if option.name not in _REPEATED}
    flags = (name for name, row in ROWS.items() if row.has_flag)
    names = dict.fromkeys((*_OF_SCRIPT, *flags, *_WHERE, "job", *_ONCE))
    own = [Option(option_name(name), getattr(args, name)) for name in names if whole or name not in _ONCE]
    given = [option for option in own if option.value not in (None, False, "") and option.name not in replaced]
    if args.code == "":
        given.append(Option("code"))
    words = [word for option in (*given, *more) for word in flag_words(option)]
    after = ""
    if args.args:
        from pumice.admission.program_arguments import read_arguments

        after = f" -- {shown_words(read_arguments(args.args).shown)}"
    return escaped(shlex.join(["pumice", "run", args.file, *words]) + after)


def next_on_cluster(args: argparse.Namespace, outcome: RunEnded) -> str:
    """Return what to type after a run on a cluster that did not complete."""
    if outcome.verdict is None:
        return ""
    given = [Option(option_name(name), getattr(args, name)) for name in _WHERE if getattr(args, name)]
    words = [word for option in given for word in flag_words(option)]
    return outcome.verdict.next or escaped(shlex.join(["pumice", "why", outcome.job.name, *words]))


def next_step(args: argparse.Namespace, locate: Locate, outcome: RunEnded) -> str:
    """Return what to type after a run that did not complete."""
    if outcome.verdict is None:
        return ""
    look, blamed = outcome.verdict.next, outcome.verdict.blamed
    missing = missing_module(blamed.line) if blamed is not None else ""
    if missing and outcome.host_image and outcome.reason != SUSPENDED:
        this = f"this was {outcome.python}" if outcome.python else "no Python was found here"
        again = typed_again(args, Option("python", outcome.python_with or "PATH"))
        return f"{again}     {'it' if outcome.python_with else 'PATH'} has {missing}; {this}"
    if resume := outcome.resume_command:
        return resume
    if outcome.stop is not None:
        return look or typed_again(args, Option("keep", True))
    if outcome.reason == SUSPENDED:
        return f"{typed_again(args)}     after suspend is set to false{at(locate, SPEC / 'suspend')}"
    if outcome.first is not None and outcome.unshared:
        path = outcome.unshared
        return f"{typed_again(args, Option('mount', f'{path}:ro'))}     {path} exists here, and pods do not see it"
    if outcome.first is not None and outcome.misses_project:
        there = argparse.Namespace(**{**vars(args), "file": Path(args.file).name})
        directory = os.path.relpath(outcome.misses_project)
        return f"cd {shlex.quote(directory)} && {typed_again(there)}     the file is beside the Job file, not here"
    if outcome.first is not None and outcome.misses_workdir:
        path = outcome.misses_workdir
        return f"{typed_again(args, Option('mount', f'.:{path}'))}     the file is in this directory, not in {path}"
    # A command that the shell did not find counts as well.
    if outcome.first is not None and outcome.first.code == _NOT_FOUND and outcome.host_image:
        image = outcome.host_image
        again = typed_again(args, Option("image", {image: "PATH"}))
        return f"{again}     PATH has the image's files; `pumice image pull {image}` fetches them"
    return look or f"{typed_again(args, Option('keep', True))}     keeps the pods' files"
