"""The flags of `pumice run` and the `pumice.toml` beside the job file, read into one value; flags win."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pumice.engines.local.settings import ExtraMount, Settings, state_directory
from pumice.engines.local.surroundings import Isolation, Network
from pumice.model.duration import Duration

TOML: Final = "pumice.toml"
_LAST_PORT: Final = 65535
_TABLES: Final = ("images", "entrypoints", "programs", "files", "mounts")


class SettingsError(Exception):
    """A flag or a line of pumice.toml that cannot be understood; the message says which and what is accepted."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a pod so long after the job first ran."""

    pod: str
    after: float


@dataclass(frozen=True, slots=True)
class Publish:
    pod: str
    port: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    settings: Settings
    scale: Mapping[str, int] = field(default_factory=dict)
    kills: tuple[Kill, ...] = ()
    publish: tuple[Publish, ...] = ()
    timeout: float | None = None
    network: Network = Network.OUTBOUND
    isolation: Isolation = Isolation.AUTO


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
        choices=[*Network],
        type=Network,
        default=Network.OUTBOUND,
        help="job: the pods reach each other only; outbound: also what this machine reaches",
    )
    parser.add_argument(
        "--isolation",
        choices=[*Isolation],
        type=Isolation,
        default=Isolation.AUTO,
        help="namespaces keep pods apart; process: plain processes, where namespaces are refused",
    )
    parser.add_argument("--timeout", metavar="10m", default="", help="end the job after this long (exit code 124)")
    parser.add_argument("--keep", action="store_true", help="keep what the pods wrote, and say where")
    parser.add_argument("--json", action="store_true", help="one JSON object an event")
    parser.add_argument("--no-prefix", action="store_true", help="log lines without the names of the pods")


def read_options(args: argparse.Namespace) -> RunOptions:
    beside = Path(args.file).resolve().parent if args.file != "-" else Path.cwd()
    table = _read_toml(beside / TOML)
    images = {name: beside / str(path) for name, path in table["images"].items()}
    images |= {name: Path(path).absolute() for name, path in _pairs(args.image, "--image", "NAME=PATH")}
    entrypoints = {name: _command(str(command), beside) for name, command in table["entrypoints"].items()}
    entrypoints |= {
        name: tuple(shlex.split(cmd)) for name, cmd in _pairs(args.entrypoint, "--entrypoint", 'IMAGE="cmd"')
    }
    mounts = [_mount(str(path), beside) for path in table["mounts"].get("paths", [])]
    mounts += [_mount(text, Path.cwd()) for text in args.mount]
    if not beside.is_relative_to(Path.cwd()):
        mounts.append(ExtraMount(beside, read_only=True))
    python = active_python(os.environ)
    settings = Settings(
        workdir=Path.cwd(),
        state=state_directory(os.environ, Path.home()),
        python=python.directories,
        path=python.bin,
        images=images,
        entrypoints=entrypoints,
        programs={name: _programs(name, paths, beside) for name, paths in table["programs"].items()},
        files={name: _files(name, paths, beside) for name, paths in table["files"].items()},
        env=dict(_pairs(args.env, "--env", "K=V")),
        mounts=tuple(mounts),
        keep=args.keep,
    )
    return RunOptions(
        settings,
        scale={task: _count(number, task) for task, number in _pairs(args.scale, "--scale", "TASK=N")},
        kills=tuple(_kill(text) for text in args.kill),
        publish=tuple(_publish(text) for text in args.publish),
        timeout=_seconds(args.timeout, "--timeout") if args.timeout else None,
        network=args.network,
        isolation=args.isolation,
    )


@dataclass(frozen=True, slots=True)
class ActivePython:
    """The Python that the user would get by typing `python3`, and every directory that it lives in."""

    bin: str
    directories: tuple[Path, ...]


def active_python(environ: Mapping[str, str]) -> ActivePython:
    """Of an activated environment, else of the PATH. A link is only as good as its target, so both are named."""
    found = shutil.which("python3", path=environ.get("PATH"))
    if "VIRTUAL_ENV" in environ:
        found = str(Path(environ["VIRTUAL_ENV"], "bin", "python3"))
    if found is None:
        return ActivePython("", ())
    asked = subprocess.run(  # noqa: S603 - the user's own Python
        [found, "-I", "-c", "import sys; print(sys.prefix, sys.base_prefix, sys.executable, sep='\\n')"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    prefix, base, executable, *_ = [*asked.stdout.splitlines(), "", "", ""]
    places = [place for text in (prefix, base) if text for place in (Path(text), Path(text).resolve())]
    directories = dict.fromkeys(place for place in places if place.is_dir() and place != Path("/usr"))
    return ActivePython(str(Path(executable).parent) if executable else "", tuple(directories))


def _read_toml(path: Path) -> dict[str, dict[str, Any]]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name}: {error}") from error
    for name, value in table.items():
        if name not in _TABLES or not isinstance(value, dict):
            raise SettingsError(f"{path.name}: {name}: unknown; there are [{'], ['.join(_TABLES)}]")
    return {name: table.get(name, {}) for name in _TABLES}


def _command(text: str, beside: Path) -> tuple[str, ...]:
    """A command of pumice.toml; containers run elsewhere, so files beside it are named in full."""
    return tuple(str(beside / word) if word.startswith("./") else word for word in shlex.split(text))


def _programs(name: str, paths: object, beside: Path) -> tuple[Path, ...]:
    if not isinstance(paths, list):
        raise SettingsError(f"{TOML}: programs: {name}: {paths}: must be a list of files")
    for path in paths:
        if not (beside / str(path)).is_file():
            raise SettingsError(f"{TOML}: programs: {name}: {path}: no such file")
    return tuple(beside / str(path) for path in paths)


def _files(name: str, paths: object, beside: Path) -> dict[str, Path]:
    if not isinstance(paths, dict):
        raise SettingsError(f'{TOML}: files: {name}: {paths}: must be {{ "/path/in/the/container" = "./file" }}')
    for target, source in paths.items():
        if not target.startswith("/"):
            raise SettingsError(f"{TOML}: files: {name}: {target}: must be a path from the root, such as /{target}")
        if not (beside / str(source)).is_file():
            raise SettingsError(f"{TOML}: files: {name}: {source}: no such file")
    return {target: beside / str(source) for target, source in paths.items()}


def _pairs(texts: list[str], flag: str, form: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise SettingsError(f"{flag}: {text}: must be {form}")
        yield name, value


def _mount(text: str, base: Path) -> ExtraMount:
    path, _, mode = text.partition(":")
    if mode not in ("", "ro", "rw"):
        raise SettingsError(f"--mount: {text}: must be PATH or PATH:ro")
    place = base / path
    if not place.exists():
        raise SettingsError(f"--mount: {path}: no such file or directory")
    return ExtraMount(place.absolute(), mode == "ro")


def _kill(text: str) -> Kill:
    pod, mark, moment = text.partition("@")
    if not mark:
        raise SettingsError(f"--kill: {text}: must be TASK-INDEX@30s")
    return Kill(pod, _seconds(moment, "--kill"))


def _publish(text: str) -> Publish:
    match = re.fullmatch(r"(.+):([0-9]{1,5})", text)
    if match is None or not 0 < int(match[2]) <= _LAST_PORT:
        raise SettingsError(f"--publish: {text}: must be TASK-INDEX:PORT, with a port from 1 to {_LAST_PORT}")
    return Publish(match[1], int(match[2]))


def _seconds(text: str, flag: str) -> float:
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise SettingsError(f"{flag}: {error}") from error


def _count(text: str, task: str) -> int:
    if not text.isdecimal():
        raise SettingsError(f"--scale: {task}={text}: must be 0 or more")
    return int(text)
