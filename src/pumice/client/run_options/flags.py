"""Parses the values of the flags of `pumice run`. Each function raises InvalidOption with what is accepted."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pumice.engines.local.host_access.never_shared import is_never_shared, why_not
from pumice.engines.local.options import Kill, Publish
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.state.settings import ExtraMount
from pumice.model.duration import Duration, DurationError
from pumice.model.problem import Position, Problem
from pumice.model.quantity import Quantity
from pumice.model.syntax import env_name_error
from pumice.yaml.source import read_text

_LAST_PORT: Final = 65535


def bad_value(origin: str, message: str, hint: str = "") -> InvalidOption:
    """`origin` is a flag, or a table of pumice.toml."""
    return InvalidOption(message, hint, Position(origin))


def pairs(texts: Sequence[str], flag: str, form: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise bad_value(flag, f"{text}: must be {form}")
        yield name, value


def variables(texts: Sequence[str], environ: Mapping[str, str], origin: str = "--env") -> dict[str, str]:
    """`NAME=VALUE`, or `NAME`, whose value is that of our own variable."""
    found = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not name:
            raise bad_value(origin, f"{text}: must be NAME=VALUE or NAME")
        if error := env_name_error(name):
            raise bad_value(origin, f"{text}: the name {error}")
        if not mark and name not in environ:
            raise bad_value(origin, f"{name}: is not set here", f"write {name}=VALUE, or export it")
        found[name] = value if mark else environ[name]
    return found


def variables_of_files(files: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """A variable per line, as `--env` takes it; empty lines and lines that begin with # are left out."""
    found: dict[str, str] = {}
    for file in files:
        text = read_text(file)
        if isinstance(text, Problem):
            raise InvalidOption.of([text])
        lines = [line.strip() for line in text.splitlines()]
        found |= variables([line for line in lines if line and line[0] != "#"], environ, f"--env-file: {file}")
    return found


def passed_on(texts: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """Return the names of variables whose values are the caller's own."""
    lines = [line.strip() for file in files if isinstance(text := read_text(file), str) for line in text.splitlines()]
    return tuple(text for text in (*lines, *texts) if text and text[0] != "#" and "=" not in text)


def images(texts: Sequence[str]) -> dict[str, Path]:
    named = dict(pairs(texts, "--image", "NAME=PATH"))
    if empty := next((name for name, path in named.items() if not path), ""):
        # An empty path would be the working directory.
        raise bad_value("--image", f"{empty}=: must be NAME=PATH")
    found = {name: Path(path).absolute() for name, path in named.items()}
    for name, path in found.items():
        if not path.exists():
            hint = "PATH is a directory with the image's files, or an archive made by `docker save`"
            raise bad_value("--image", f"{name}={path}: no such file or directory", hint)
    return found


def command(text: str, origin: str) -> tuple[str, ...]:
    """Split a command line as a shell does."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise bad_value(origin, f"{text}: {str(error).lower()}") from error
    if not words:
        raise bad_value(origin, 'must be a command, such as "python train.py"')
    return words


def entrypoints(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    listed = pairs(texts, "--entrypoint", 'IMAGE="COMMAND"')
    return {name: command(text, f"--entrypoint: {name}") for name, text in listed}


def mount(text: str, base: Path, origin: str) -> ExtraMount:
    """`PATH` or `SOURCE:TARGET`, with `:ro` or `:rw` at the end; a colon may be part of a path that exists."""
    path, mode = text, "rw"
    before, mark, last = text.rpartition(":")
    if last in ("ro", "rw") and mark and not (base / text).exists():
        path, mode = before, last
    source, target = path, ""
    before, mark, last = path.rpartition(":")
    if mark and not (base / path).exists():
        source, target = before, last
        if not target.startswith("/"):
            forms = "PATH, PATH:ro, SOURCE:TARGET or SOURCE:TARGET:ro, with a TARGET such as /data"
            raise bad_value(origin, f"{text}: must be {forms}", f"{base / text} does not exist")
    if not source or not (base / source).exists():
        raise bad_value(origin, f"{text}: no such file or directory: {base / source}")
    if is_never_shared(base / source):
        raise bad_value(origin, f"{text}: {why_not(base / source)}", "name the directory in it that the job needs")
    return ExtraMount((base / source).absolute(), mode == "ro", Path(os.path.normpath(target)) if target else None)


def size(text: str, origin: str) -> int:
    """`10Gi`, as a quantity of Kubernetes."""
    try:
        found = Quantity.parse(text).value()
    except ValueError as error:
        raise bad_value(origin, f"{text}: must be a size such as 10Gi") from error
    if found <= 0:
        raise bad_value(origin, f"{text}: must be more than 0")
    return found


def processes(text: str, origin: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,6}", text):
        raise bad_value(origin, f"{text}: must be a number, 1 or more")
    return int(text)


def host_prefix(text: str, base: Path) -> Path:
    """A prefix of paths that the job may use."""
    if not text:
        raise bad_value("--allow-host-path", "must be a path")
    return base / text


def kill(text: str) -> Kill:
    pod, mark, moment = text.rpartition("@")
    if not mark or not pod:
        raise bad_value("--kill", f"{text}: must be TASK-INDEX@TIME, such as worker-0@30s")
    return Kill(pod, seconds(moment, f"--kill: {pod}"))


def publish(text: str) -> Publish:
    match = re.fullmatch(r"(.+):([0-9]{1,5})", text, re.ASCII)
    if match is None or not 0 < int(match[2]) <= _LAST_PORT:
        raise bad_value("--publish", f"{text}: must be TASK-INDEX:PORT, with a port from 1 to {_LAST_PORT}")
    return Publish(match[1], int(match[2]))


def timeout(text: str) -> float:
    found = seconds(text, "--timeout")
    if found <= 0:
        raise bad_value("--timeout", f"{text}: must be more than 0")
    return found


def seconds(text: str, origin: str) -> float:
    try:
        found = Duration.parse(text).seconds
    except DurationError as error:
        # Not isdecimal, which accepts the digits of all scripts.
        hint = f"did you mean {text}s?" if re.fullmatch("[0-9]{1,9}", text) else ""
        raise bad_value(origin, f"{text}: {error.message}", hint) from error
    if found < 0:
        raise bad_value(origin, f"{text}: must be 0 or more")
    return found


def scale(texts: Sequence[str]) -> dict[str, int]:
    found = {}
    for task, number in pairs(texts, "--scale", "TASK=N"):
        # Not isdecimal, which accepts the digits of all scripts.
        if not re.fullmatch("[0-9]{1,6}", number):
            raise bad_value("--scale", f"{task}={number}: N must be a number, 0 or more")
        found[task] = int(number)
    return found
