"""What the user asked for with flags and in `pumice.toml`: everything about a run that is not in the Job."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExtraMount:
    path: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    workdir: Path  # visible in every pod at the same path, writable
    state: Path
    python: tuple[Path, ...] = ()  # directories of the active Python environment, visible read-only
    path: str = ""  # put in front of PATH where the host serves as image
    images: Mapping[str, Path] = field(default_factory=dict)
    entrypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # put on the PATH of an image's containers
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)  # put at these paths of an image's containers
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[ExtraMount, ...] = ()
    keep: bool = False


class NoStateError(Exception):
    """There is no place to keep state in; the message says what to do."""


def state_directory(environ: Mapping[str, str]) -> Path:
    """A relative XDG_STATE_HOME counts as none, as its specification says. Raises NoStateError."""
    base = Path(environ.get("XDG_STATE_HOME") or "")
    if not base.is_absolute():
        home = home_directory(environ)
        if home is None:
            raise NoStateError("there is no home directory to keep state in\n  hint: set XDG_STATE_HOME")
        base = home / ".local" / "state"
    return base / "pumice"


def home_directory(environ: Mapping[str, str]) -> Path | None:
    """None for a user whom nobody knows. A relative one would be another one for each program."""
    home = Path(environ.get("HOME") or "")
    if home.is_absolute():
        return home
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None
