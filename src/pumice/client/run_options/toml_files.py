"""Reads the TOML files with options: `pumice.toml` beside a Job file, and the user's own `config.toml`.

A project may say which files its jobs need. Consent and limits are in the user's own file, which no project may set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pumice.client.run_options import kinds
from pumice.client.run_options.kinds import Kind, Source, exists
from pumice.client.run_options.table import ROWS, option_name
from pumice.model.problem import Position, Problem
from pumice.model.scalars import kind_of
from pumice.model.suggestions import did_you_mean
from pumice.store.run_errors import InvalidOption
from pumice.store.settings import ExtraMount, HostAccess, Retention, config_directory
from pumice.yaml.source import read_text

PROJECT_FILE: Final = "pumice.toml"
CONFIG_FILE: Final = "config.toml"


class ProjectFile(Struct, frozen=True):
    """`values` are options by name. The others are tables by names of images. Paths are relative to the file."""

    values: Mapping[str, Any] = field(default_factory=dict)
    programs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)

    def accesses(self, beside: Path, *, inside: bool = False) -> tuple[HostAccess, ...]:
        """Return every path that leaves the directory of the file, or every other one."""
        read = {
            "images": self.values["image"].values(),
            "programs": (path for paths in self.programs.values() for path in paths),
            "files": (path for paths in self.files.values() for path in paths.values()),
            "entrypoints": self._entrypoint_paths(),
        }
        found = [HostAccess(path, True, f"{PROJECT_FILE} [{table}]") for table, paths in read.items() for path in paths]
        found += [HostAccess(each.path, each.read_only, f"{PROJECT_FILE} [mounts]") for each in self.values["mount"]]
        real = Path(os.path.realpath(beside))
        return tuple(dict.fromkeys(each for each in found if each.real.is_relative_to(real) is inside))

    def files_beside(self, beside: Path) -> tuple[Path, ...]:
        """Return the files of the directory that entry points name: the others are copied, or mounted by name."""
        words = self._entrypoint_paths()
        return tuple(dict.fromkeys(path for path in words if path.is_relative_to(beside) and path.is_file()))

    def _entrypoint_paths(self) -> Iterator[Path]:
        return (Path(word) for words in self.values["entrypoint"].values() for word in words if word[:1] == "/")


class UserConfig(Struct, frozen=True):
    values: Mapping[str, Any] = field(default_factory=dict)  # options by name
    retention: Retention = field(default_factory=Retention)
    after_reboot: str = "policy"
    priorities: Mapping[str, int] = field(default_factory=dict)  # by priorityClassName
    on: str = ""  # the context of commands without `--on`


def read_project_file(beside: Path) -> ProjectFile:
    """Read the file in a directory; empty if there is none. Raises InvalidOption with all problems."""
    found = _read_keys(_read(beside / PROJECT_FILE, PROJECT_FILE), _PROJECT, Source(Position(PROJECT_FILE), beside))
    values = {name: found[row.project] for name, row in ROWS.items() if row.project in found}
    mounts = tuple(mount for mounts in values.pop("mount", {}).values() for mount in mounts)
    defaults: dict[str, Any] = {"image": {}, "entrypoint": {}, "mount": mounts}
    return ProjectFile(defaults | values, found.get("programs", {}), found.get("files", {}))


def read_user_config(environ: Mapping[str, str]) -> UserConfig:
    """Read the file; empty if there is none. Raises InvalidOption with all problems."""
    directory = config_directory(environ)
    if directory is None:
        return UserConfig()
    path = str(directory / CONFIG_FILE)
    found = _read_keys(_read(directory / CONFIG_FILE, path), _CONFIG, Source(Position(path), directory, environ))
    values = {name: found[option_name(name)] for name in ROWS if option_name(name) in found}
    if env := values.get("env"):
        # A variable that is passed on has the value that it has now.
        values["env"] = {name: environ[name] if value is None else value for name, value in env.items()}
    runs = found.get("runs", {})
    after_reboot = runs.pop("after_reboot", "policy")
    return UserConfig(values, Retention(**runs), after_reboot, found.get("priorities", {}), found.get("on", ""))


def _read(path: Path, name: str) -> dict[str, Any]:
    """Return the content of a file; empty if there is none. `name` is what errors call it. Raises InvalidOption."""
    if not exists(path) or not path.is_file():
        return {}
    text = read_text(str(path))
    if isinstance(text, Problem):
        raise InvalidOption.of([replace(text, where=replace(text.where, file=name))])
    import tomllib  # noqa: PLC0415 - few runs have such a file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, position = str(error).rpartition(" (at ")
        line, column = [*map(int, re.findall("[0-9]+", position)), 0, 0][:2]
        end = "" if line else " at the end of the file"
        raise InvalidOption(f"{message[:1].lower()}{message[1:]}{end}", "", Position(name, line, column)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidOption("a number is too long, or a list too deep", "", Position(name)) from error


def _read_keys(found: object, known: Mapping[str, Kind], source: Source) -> dict[str, Any]:
    """Read a table whose keys are known. Raises InvalidOption with all problems."""

    def read(key: str, value: object, at: Source) -> Any:
        if key not in known:
            raise at.error("unknown", f"{did_you_mean(key, tuple(known))} there are {', '.join(known)}".lstrip())
        return known[key].read(value, at)

    return _read_table(found, source, read)


def _read_table(found: object, source: Source, read: Callable[[str, Any, Source], Any]) -> dict[str, Any]:
    """Read each value of a table. Raises InvalidOption with all problems."""
    file, table = source.where.file, source.where.option
    if not isinstance(found, dict):
        raise source.error(f"must be a table, found {kind_of(found)}", f"write [{table}] above it")
    problems: list[Problem] = []
    values = {}
    for key, value in found.items():
        where = Position(file, option=f"{table}: {key}" if table else key)
        try:
            values[key] = read(key, value, msgspec.structs.replace(source, where=where))
        except InvalidOption as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidOption.of(problems)
    return values


def _each(read: Callable[[str, Any, Source], Any]) -> Kind:
    """A table with names of the user's."""
    return Kind(lambda found, source: _read_table(found, source, read))


def _image(_name: str, path: object, source: Source) -> Path:
    if not isinstance(path, str) or not path:
        found = kind_of(path) if path != "" else "nothing"
        raise source.error(f"must be the path of a directory or an archive, found {found}")
    return source.base / path


def _command(_name: str, text: object, source: Source) -> tuple[str, ...]:
    """Split a command line; `./` means the file's directory, because containers have another working directory."""
    if not isinstance(text, str):
        raise source.error(f'must be a text, such as "python ./train.py", found {kind_of(text)}')
    words = kinds.command(text, source)
    return tuple(str(source.base / word) if word.startswith("./") else word for word in words)


def _programs(_name: str, paths: object, source: Source) -> tuple[Path, ...]:
    if not isinstance(paths, list) or not _are_texts(paths):
        raise source.error("must be a list of files")
    for path in paths:
        if not exists(source.base / path) or not (source.base / path).is_file():
            raise source.error(f"{path}: no such file")
    return tuple(source.base / path for path in paths)


def _files(_name: str, paths: object, source: Source) -> dict[str, Path]:
    if not isinstance(paths, dict) or not _are_texts(paths.values()):
        raise source.error('must be { "/path/in/the/container" = "./file" }')
    for target, path in paths.items():
        if not target.startswith("/"):
            raise source.error(f"{target}: must be a path from the root, such as /{target}")
        if not exists(source.base / path):
            raise source.error(f"{path}: no such file or directory")
    return {target: source.base / path for target, path in paths.items()}


def _mounts(name: str, paths: object, source: Source) -> list[ExtraMount]:
    if name.startswith("/") and isinstance(paths, str):
        return [msgspec.structs.replace(kinds.mount(paths, source), at=Path(os.path.normpath(name)))]
    if name != "paths" or not isinstance(paths, list) or not _are_texts(paths):
        raise source.error('must be paths = ["PATH", "PATH:ro"], or "/path/in/pods" = "PATH"')
    return [kinds.mount(path, source) for path in paths]


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


_PROJECT: Final = {
    "images": _each(_image),
    "entrypoints": _each(_command),
    "programs": _each(_programs),
    "files": _each(_files),
    "mounts": _each(_mounts),
    "args": kinds.WORDS,
    "fit": kinds.SWITCH,
}
_NOT_NEGATIVE: Final = Kind(
    kinds.checked("a whole number, 0 or more", lambda value: kinds.is_whole(value) and value >= 0)
)
_RUNS: Final = {
    "keep_days": _NOT_NEGATIVE,
    "keep_per_name": _NOT_NEGATIVE,
    "max_size": Kind(lambda value, source: kinds.size(str(value).removesuffix("B"), source)),
    "after_reboot": kinds.choice(("policy", "suspend")),
}
_CONFIG: Final = {
    "on": Kind(kinds.checked("the name of a context", lambda value: isinstance(value, str) and value)),
    **{option_name(name): row.kind for name, row in ROWS.items() if row.config},
    "runs": Kind(lambda found, source: _read_keys(found, _RUNS, source)),
    "priorities": _each(lambda _name, value, source: kinds.WHOLE_NUMBER.read(value, source)),
}
