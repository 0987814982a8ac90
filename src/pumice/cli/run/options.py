"""The flags of `pumice run` and the `pumice.toml` beside the job file, read into one value; flags win."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import Final

from pumice.cli.run import flags
from pumice.cli.run.project_file import read_toml
from pumice.engines.local.container_spec.active_python import active_python
from pumice.engines.local.isolation import Isolation, Network
from pumice.engines.local.options import RunOptions, SettingsError
from pumice.engines.local.state.settings import ExtraMount, NoStateError, Settings, state_directory

_REPEATED: Final = ("with", "image", "entrypoint", "env", "mount", "scale", "publish", "kill")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a Job file, or - for standard input")
    parser.add_argument(
        "--with",
        dest="companions",
        action="append",
        default=[],
        metavar="FILE",
        help="ConfigMaps, Secrets and claims that the job uses",
    )
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a directory or archive that serves as this image",
    )
    parser.add_argument(
        "--entrypoint",
        action="append",
        default=[],
        metavar='IMAGE="CMD"',
        help="what to run where the host serves as an image and the container has no command",
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="for all containers; the job's own value wins"
    )
    parser.add_argument(
        "--mount", action="append", default=[], metavar="PATH[:ro]", help="show this path of the host in all pods"
    )
    parser.add_argument(
        "--scale", action="append", default=[], metavar="TASK=N", help="run with so many pods of a task"
    )
    parser.add_argument(
        "--publish", action="append", default=[], metavar="TASK-INDEX:PORT", help="reach a pod's port on 127.0.0.1"
    )
    parser.add_argument(
        "--kill", action="append", default=[], metavar="TASK-INDEX@30s", help="kill a pod so long after the first start"
    )
    parser.add_argument(
        "--network",
        choices=[str(each) for each in Network],
        default=str(Network.OUTBOUND),
        help="job: the pods reach each other only; outbound: also what this machine reaches",
    )
    parser.add_argument(
        "--isolation",
        choices=[str(each) for each in Isolation],
        default=str(Isolation.AUTO),
        help="namespaces keep pods apart; process: plain processes, where namespaces are refused",
    )
    parser.add_argument("--timeout", metavar="10m", help="end the job after this long (exit code 124)")
    parser.add_argument("--keep", action="store_true", help="keep what the pods wrote, and say where")
    parser.add_argument("--json", action="store_true", help="one JSON object an event")
    parser.add_argument("--no-prefix", action="store_true", help="log lines without the names of the pods")


def read_options(args: argparse.Namespace) -> RunOptions:
    """Raises SettingsError."""
    try:
        return _options(args)
    except OSError as error:
        # Whatever is named, whether it is there cannot be told: a directory above it is closed to this user.
        raise SettingsError(f"{error.filename}: {(error.strerror or str(error)).lower()}") from error


def _options(args: argparse.Namespace) -> RunOptions:
    here = _working_directory()
    beside = Path(args.file).resolve().parent if args.file != "-" else here
    toml = read_toml(beside)
    mounts = [*toml.mounts, *(flags.mount(text, here, "--mount") for text in args.mount)]
    if not beside.is_relative_to(here):
        mounts.append(ExtraMount(beside, read_only=True))
    images, entrypoints = flags.images(args.image), flags.entrypoints(args.entrypoint)
    python = active_python(os.environ)
    settings = Settings(
        workdir=here,
        state=_state(),
        python=python.directories,
        path=python.bin,
        images={**toml.images, **images},
        entrypoints={**toml.entrypoints, **entrypoints},
        programs=toml.programs,
        files=toml.files,
        env=flags.variables(args.env),
        mounts=tuple(mounts),
        keep=args.keep,
    )
    return RunOptions(
        settings,
        scale=flags.scale(args.scale),
        kills=tuple(flags.kill(text) for text in args.kill),
        publish=tuple(flags.publish(text) for text in args.publish),
        timeout=None if args.timeout is None else flags.timeout(args.timeout),
        network=Network(args.network),
        isolation=Isolation(args.isolation),
        named_images={"--image": tuple(images), "--entrypoint": tuple(entrypoints)},
    )


def typed_again(args: argparse.Namespace, *more: str) -> str:
    """The command line that asks for the same once more, as long as it takes, with additions."""
    words = ["pumice", "run", args.file]
    for flag in _REPEATED:
        values = args.companions if flag == "with" else getattr(args, flag)
        words += [word for value in values for word in (f"--{flag}", value)]
    words += [] if args.network == Network.OUTBOUND else ["--network", args.network]
    words += [] if args.isolation == Isolation.AUTO else ["--isolation", args.isolation]
    return shlex.join([*words, *more])


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsError("the working directory is gone\n  hint: change to one that exists") from error


def _state() -> Path:
    try:
        return state_directory(os.environ)
    except NoStateError as error:
        raise SettingsError(error.problem.text) from error
