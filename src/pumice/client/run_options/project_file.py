"""Reads the `pumice.toml` beside a Job file: replacements for images, and what pods may see of this machine."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from pumice.client.run_options import flags
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.state.settings import ExtraMount, HostAccess
from pumice.model.problem import Position, Problem
from pumice.model.scalars import kind_of
from pumice.model.suggestions import did_you_mean
from pumice.yaml.source import read_text

TOML: Final = "pumice.toml"
_TABLES: Final = ("images", "entrypoints", "programs", "files", "mounts")
_Value = TypeVar("_Value")


class TomlSettings(Struct, frozen=True):
    """Tables by names of images. Paths are relative to the file."""

    images: Mapping[str, Path] = field(default_factory=dict)
    entrypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    mounts: tuple[ExtraMount, ...] = ()
    fit: bool = False

    def accesses(self, beside: Path, *, inside: bool = False) -> tuple[HostAccess, ...]:
        """Return every path that leaves the directory of the file, or every other one."""
        read = {
            "images": self.images.values(),
            "programs": (path for paths in self.programs.values() for path in paths),
            "files": (path for paths in self.files.values() for path in paths.values()),
            "entrypoints": (Path(word) for words in self.entrypoints.values() for word in words if word[:1] == "/"),
        }
        found = [HostAccess(path, True, f"{TOML} [{table}]") for table, paths in read.items() for path in paths]
        found += [HostAccess(each.path, each.read_only, f"{TOML} [mounts]") for each in self.mounts]
        real = Path(os.path.realpath(beside))
        return tuple(dict.fromkeys(each for each in found if each.real.is_relative_to(real) is inside))

    def files_beside(self, beside: Path) -> tuple[Path, ...]:
        """Return the files of the directory that entry points name: the others are copied, or mounted by name."""
        words = (Path(word) for words in self.entrypoints.values() for word in words if word[:1] == "/")
        return tuple(dict.fromkeys(path for path in words if path.is_relative_to(beside) and path.is_file()))


def read_toml(beside: Path) -> TomlSettings:
    """Read the file in a directory; empty settings if there is none. Raises InvalidOption with all problems."""
    found = _parsed(beside / TOML) if (beside / TOML).is_file() else {}
    fit = found.pop("fit", False)
    tables, problems = _tables(found)
    if not isinstance(fit, bool):
        problems.append(Problem(f"fit: must be true or false, found {kind_of(fit)}", "", Position(TOML)))

    def each(table: str, read: Callable[[str, object, Path], _Value]) -> dict[str, _Value]:
        found = {}
        for name, value in tables[table].items():
            try:
                found[name] = read(name, value, beside)
            except InvalidOption as error:
                problem = error.problem
                problems.append(replace(problem, message=f"{table}: {problem}", where=Position(TOML)))
        return found

    settings = TomlSettings(
        images=each("images", _image),
        entrypoints=each("entrypoints", _command),
        programs=each("programs", _programs),
        files=each("files", _files),
        mounts=tuple(mount for mounts in each("mounts", _mounts).values() for mount in mounts),
        fit=fit,
    )
    if problems:
        raise InvalidOption.of(problems)
    return settings


def _tables(found: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """Return the known tables, and what is wrong with the others."""
    problems = []
    for name, value in found.items():
        if name not in _TABLES:
            suggestion = f"{did_you_mean(name, (*_TABLES, 'fit'))} ".lstrip()
            hint = f"{suggestion}there are [{'], ['.join(_TABLES)}] and fit"
            problems.append(Problem(f"{name}: unknown", hint, Position(TOML)))
        elif not isinstance(value, dict):
            message = f"{name}: must be a table, found {kind_of(value)}"
            problems.append(Problem(message, f"write [{name}] above it", Position(TOML)))
    tables = {name: found.get(name) for name in _TABLES}
    return {name: table if isinstance(table, dict) else {} for name, table in tables.items()}, problems


def _parsed(path: Path) -> dict[str, Any]:
    text = read_text(str(path))
    if isinstance(text, Problem):
        raise InvalidOption.of([replace(text, where=replace(text.where, file=TOML))])
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, position = str(error).rpartition(" (at ")
        line, column = [*map(int, re.findall("[0-9]+", position)), 0, 0][:2]
        end = "" if line else " at the end of the file"
        raise InvalidOption(f"{message[:1].lower()}{message[1:]}{end}", "", Position(TOML, line, column)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidOption("a number is too long, or a list too deep", "", Position(TOML)) from error


def _image(name: str, path: object, beside: Path) -> Path:
    if not isinstance(path, str) or not path:
        found = kind_of(path) if path != "" else "nothing"
        raise InvalidOption(f"{name}: must be the path of a directory or an archive, found {found}")
    return beside / path


def _command(name: str, text: object, beside: Path) -> tuple[str, ...]:
    """Split a command line; `./` means the file's directory, because containers have another working directory."""
    if not isinstance(text, str):
        raise InvalidOption(f'{name}: must be a text, such as "python ./train.py", found {kind_of(text)}')
    words = flags.command(text, name)
    return tuple(str(beside / word) if word.startswith("./") else word for word in words)


def _programs(name: str, paths: object, beside: Path) -> tuple[Path, ...]:
    if not isinstance(paths, list) or not _are_texts(paths):
        raise InvalidOption(f"{name}: must be a list of files")
    for path in paths:
        if not (beside / path).is_file():
            raise InvalidOption(f"{name}: {path}: no such file")
    return tuple(beside / path for path in paths)


def _files(name: str, paths: object, beside: Path) -> dict[str, Path]:
    if not isinstance(paths, dict) or not _are_texts(paths.values()):
        raise InvalidOption(f'{name}: must be {{ "/path/in/the/container" = "./file" }}')
    for target, source in paths.items():
        if not target.startswith("/"):
            raise InvalidOption(f"{name}: {target}: must be a path from the root, such as /{target}")
        if not (beside / source).exists():
            raise InvalidOption(f"{name}: {source}: no such file or directory")
    return {target: beside / source for target, source in paths.items()}


def _mounts(name: str, paths: object, beside: Path) -> list[ExtraMount]:
    if name.startswith("/") and isinstance(paths, str):
        found = flags.mount(paths, beside, name)
        return [msgspec.structs.replace(found, at=Path(os.path.normpath(name)))]
    if name != "paths" or not isinstance(paths, list) or not _are_texts(paths):
        raise InvalidOption('must be paths = ["PATH", "PATH:ro"], or "/path/in/pods" = "PATH"')
    return [flags.mount(path, beside, name) for path in paths]


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
