"""Settings of a run, from flags and `pumice.toml`: everything that is not in the Job."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pumice.engines.local.run_errors import SettingsError


@dataclass(frozen=True, slots=True)
class ExtraMount:
    path: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    workdir: Path  # visible in every pod at the same path, writable
    share_workdir: bool = True  # if not, the working directory of pods has this path, but is their own
    state: Path
    python: tuple[Path, ...] = ()  # directories of the active Python environment, visible read-only
    path: str = ""  # prepended to PATH where the host serves as image
    images: Mapping[str, Path] = field(default_factory=dict)
    entrypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # added to the PATH of an image's containers
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)  # by path in an image's containers
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[ExtraMount, ...] = ()
    keep: bool = False


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/pumice`; a relative value is ignored, as the XDG specification says.

    Raises SettingsError.
    """
    base = Path(environ.get("XDG_STATE_HOME") or "")
    if not base.is_absolute():
        home = home_directory(environ)
        if home is None:
            raise SettingsError("there is no home directory for the state of runs", "set XDG_STATE_HOME")
        base = home / ".local" / "state"
    return base / "pumice"


def home_directory(environ: Mapping[str, str]) -> Path | None:
    """Return the home directory; None for a user without an account. A relative HOME is ignored."""
    home = Path(environ.get("HOME") or "")
    if home.is_absolute():
        return home
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None
