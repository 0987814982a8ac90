"""The `pumice.toml` beside a job file: what stands in for images on this machine, and what pods may see of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pumice.cli import run_flags
from pumice.cli.run_flags import SettingsError
from pumice.engines.local.settings import ExtraMount
from pumice.model.nearest import did_you_mean

TOML: Final = "pumice.toml"
_TABLES: Final = ("images", "entrypoints", "programs", "files", "mounts")


@dataclass(frozen=True, slots=True)
class TomlSettings:
    """By names of images; paths are taken from where the file lies."""

    images: Mapping[str, Path] = field(default_factory=dict)
    entrypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    mounts: tuple[ExtraMount, ...] = ()


def read_toml(beside: Path) -> TomlSettings:
    """Of the file in this directory; nothing if there is none. Raises SettingsError."""
    table = _tables(beside / TOML)
    paths = table["mounts"].get("paths", [])
    if set(table["mounts"]) - {"paths"} or not _are_texts(paths):
        raise SettingsError(f'{TOML}: mounts: must be paths = ["PATH", "PATH:ro"]')
    return TomlSettings(
        images={name: _image(name, path, beside) for name, path in table["images"].items()},
        entrypoints={name: _command(name, text, beside) for name, text in table["entrypoints"].items()},
        programs={name: _programs(name, paths, beside) for name, paths in table["programs"].items()},
        files={name: _files(name, paths, beside) for name, paths in table["files"].items()},
        mounts=tuple(run_flags.mount(path, beside, f"{TOML}: mounts") for path in paths),
    )


def _tables(path: Path) -> dict[str, dict[str, Any]]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{TOML}: {error}") from error
    except OSError as error:
        raise SettingsError(f"{TOML}: {(error.strerror or str(error)).lower()}") from error
    for name, value in table.items():
        if name not in _TABLES or not isinstance(value, dict):
            asked = f"{did_you_mean(name, _TABLES)} ".lstrip()
            raise SettingsError(f"{TOML}: {name}: unknown\n  hint: {asked}there are [{'], ['.join(_TABLES)}]")
    return {name: table.get(name, {}) for name in _TABLES}


def _image(name: str, path: object, beside: Path) -> Path:
    if not isinstance(path, str):
        raise SettingsError(f"{TOML}: images: {name}: {path}: must be the path of a directory or an archive")
    return beside / path


def _command(name: str, text: object, beside: Path) -> tuple[str, ...]:
    """Containers run elsewhere, so files beside the job file are named in full."""
    if not isinstance(text, str):
        raise SettingsError(f'{TOML}: entrypoints: {name}: {text}: must be a text, such as "python ./train.py"')
    words = run_flags.command(text, f"{TOML}: entrypoints: {name}")
    return tuple(str(beside / word) if word.startswith("./") else word for word in words)


def _programs(name: str, paths: object, beside: Path) -> tuple[Path, ...]:
    if not isinstance(paths, list) or not _are_texts(paths):
        raise SettingsError(f"{TOML}: programs: {name}: {paths}: must be a list of files")
    for path in paths:
        if not (beside / path).is_file():
            raise SettingsError(f"{TOML}: programs: {name}: {path}: no such file")
    return tuple(beside / path for path in paths)


def _files(name: str, paths: object, beside: Path) -> dict[str, Path]:
    if not isinstance(paths, dict) or not _are_texts(paths.values()):
        raise SettingsError(f'{TOML}: files: {name}: {paths}: must be {{ "/path/in/the/container" = "./file" }}')
    for target, source in paths.items():
        if not target.startswith("/"):
            raise SettingsError(f"{TOML}: files: {name}: {target}: must be a path from the root, such as /{target}")
        if not (beside / source).is_file():
            raise SettingsError(f"{TOML}: files: {name}: {source}: no such file")
    return {target: beside / source for target, source in paths.items()}


def _are_texts(values: Any) -> bool:
    return isinstance(values, list | type({}.values())) and all(isinstance(value, str) for value in values)
