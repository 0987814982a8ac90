"""The `pumice.toml` beside a job file: what stands in for images on this machine, and what pods may see of it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pumice.cli.run import flags
from pumice.engines.local.options import SettingsError
from pumice.engines.local.state.settings import ExtraMount
from pumice.model.problem import Problem
from pumice.model.scalars import kind_of
from pumice.model.suggestions import did_you_mean
from pumice.yaml.source import read_text

TOML: Final = "pumice.toml"
_TABLES: Final = ("images", "entrypoints", "programs", "files", "mounts")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class TomlSettings:
    """By names of images; paths are taken from where the file lies."""

    images: Mapping[str, Path] = field(default_factory=dict)
    entrypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    mounts: tuple[ExtraMount, ...] = ()


def read_toml(beside: Path) -> TomlSettings:
    """Of the file in this directory; nothing if there is none. Raises SettingsError, with all that is wrong."""
    tables, faults = _tables(beside / TOML)

    def each(table: str, read: Callable[[str, object, Path], _Value]) -> dict[str, _Value]:
        found = {}
        for name, value in tables[table].items():
            try:
                found[name] = read(name, value, beside)
            except SettingsError as error:
                faults.append(f"{TOML}: {table}: {error}")
        return found

    settings = TomlSettings(
        images=each("images", _image),
        entrypoints=each("entrypoints", _command),
        programs=each("programs", _programs),
        files=each("files", _files),
        mounts=tuple(mount for mounts in each("mounts", _mounts).values() for mount in mounts),
    )
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


def _tables(path: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The tables, and what is wrong with the others. Raises SettingsError if the file cannot be read."""
    found = _parsed(path) if path.is_file() else {}
    faults = []
    for name, value in found.items():
        if name not in _TABLES:
            asked = f"{did_you_mean(name, _TABLES)} ".lstrip()
            faults.append(f"{TOML}: {name}: unknown\n  hint: {asked}there are [{'], ['.join(_TABLES)}]")
        elif not isinstance(value, dict):
            faults.append(f"{TOML}: {name}: must be a table, found {kind_of(value)}\n  hint: write [{name}] above it")
    tables = {name: found.get(name) for name in _TABLES}
    return {name: table if isinstance(table, dict) else {} for name, table in tables.items()}, faults


def _parsed(path: Path) -> dict[str, Any]:
    text = read_text(str(path))
    if isinstance(text, Problem):
        raise SettingsError(str(replace(text, where=replace(text.where, file=TOML))))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, place = str(error).rpartition(" (at ")
        numbers = "".join(f":{number}" for number in re.findall("[0-9]+", place))
        end = "" if numbers else " at the end of the file"
        raise SettingsError(f"{TOML}{numbers}: {problem[:1].lower()}{problem[1:]}{end}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{TOML}: a number is too long, or a list too deep, to be read") from error


def _image(name: str, path: object, beside: Path) -> Path:
    if not isinstance(path, str) or not path:
        found = kind_of(path) if path != "" else "nothing"
        raise SettingsError(f"{name}: must be the path of a directory or an archive, found {found}")
    return beside / path


def _command(name: str, text: object, beside: Path) -> tuple[str, ...]:
    """Containers run elsewhere, so files beside the job file are named in full."""
    if not isinstance(text, str):
        raise SettingsError(f'{name}: must be a text, such as "python ./train.py", found {kind_of(text)}')
    words = flags.command(text, name)
    return tuple(str(beside / word) if word.startswith("./") else word for word in words)


def _programs(name: str, paths: object, beside: Path) -> tuple[Path, ...]:
    if not isinstance(paths, list) or not _are_texts(paths):
        raise SettingsError(f"{name}: must be a list of files")
    for path in paths:
        if not (beside / path).is_file():
            raise SettingsError(f"{name}: {path}: no such file")
    return tuple(beside / path for path in paths)


def _files(name: str, paths: object, beside: Path) -> dict[str, Path]:
    if not isinstance(paths, dict) or not _are_texts(paths.values()):
        raise SettingsError(f'{name}: must be {{ "/path/in/the/container" = "./file" }}')
    for target, source in paths.items():
        if not target.startswith("/"):
            raise SettingsError(f"{name}: {target}: must be a path from the root, such as /{target}")
        if not (beside / source).is_file():
            raise SettingsError(f"{name}: {source}: no such file")
    return {target: beside / source for target, source in paths.items()}


def _mounts(name: str, paths: object, beside: Path) -> list[ExtraMount]:
    if name != "paths" or not isinstance(paths, list) or not _are_texts(paths):
        raise SettingsError('must be paths = ["PATH", "PATH:ro"]')
    return [flags.mount(path, beside, name) for path in paths]


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
