"""What the user asked for with flags and in `pumice.toml`: everything about a run that is not in the Job."""

from __future__ import annotations

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


def state_directory(environ: Mapping[str, str], home: Path) -> Path:
    """A relative XDG_STATE_HOME counts as none, as its specification says."""
    base = Path(environ.get("XDG_STATE_HOME") or "")
    return (base if base.is_absolute() else home / ".local" / "state") / "pumice"
