"""What has to be done on this machine before a pod's volumes can be mounted, as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pumice.engines.local.volumes.data_sources import Entry


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """A directory that is the volume; what is in it stays. A `group` may use all of it."""

    path: Path
    mode: int
    group: int | None = None


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """A directory with these files, and no others. A `group` may read them."""

    path: Path
    files: tuple[tuple[str, Entry], ...]
    group: int | None = None


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path of the host that must be what the pod says it is."""

    path: Path
    type: str
    volume: str


@dataclass(frozen=True, slots=True)
class SubPath:
    """A part of a volume; made as a directory if it is not there. It must not lead out of the volume by a link."""

    base: Path
    within: str
    volume: str


Step: TypeAlias = MakeDirectory | WriteFiles | HostPath | SubPath
