"""Steps that prepare volumes on this machine before they are mounted, as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pumice.engines.local.volumes.data_sources import Entry


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """Make the directory unless it exists; `group` gets write access to all of it."""

    path: Path
    mode: int
    group: int | None = None


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """Fill the directory with exactly these files; `group` gets read access."""

    path: Path
    files: tuple[tuple[str, Entry], ...]
    group: int | None = None


@dataclass(frozen=True, slots=True)
class HostPath:
    """Check that a path of the host has the type that the pod declares."""

    path: Path
    type: str
    volume: str


@dataclass(frozen=True, slots=True)
class SubPath:
    """Make a directory within a volume unless it exists; symbolic links must not lead out of the volume."""

    base: Path
    within: str
    volume: str


Step: TypeAlias = MakeDirectory | WriteFiles | HostPath | SubPath
