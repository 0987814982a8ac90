"""Other paths of this machine at which the same files are: a file system may be mounted at several directories.

Links are resolved elsewhere. A bind mount is none: a home may also be at `/export/home`, where a rule by path would not
find it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.sandbox.kernel_files import mount_point, mounted_root

_TABLE: Final = Path("/proc/self/mountinfo")


class MountedTree(Struct, frozen=True):
    """A directory `root` of a file system, and where it is mounted."""

    device: str
    root: Path
    point: Path


def read_mounts(table: Path = _TABLE) -> list[MountedTree]:
    """Return the mounts of this process; none where /proc does not list them."""
    try:
        lines = table.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return []
    return [
        MountedTree(line.split(" ")[2], Path(mounted_root(line)), Path(mount_point(line))) for line in lines if line
    ]


def find_aliases(real: Path, mounts: Sequence[MountedTree]) -> list[Path]:
    """Return the other paths of a real path."""
    holder = max(
        (each for each in mounts if real.is_relative_to(each.point)),
        key=lambda each: len(each.point.parts),
        default=None,
    )
    if holder is None:
        return []
    within = holder.root / real.relative_to(holder.point)
    found = (
        each.point / within.relative_to(each.root)
        for each in mounts
        if each.device == holder.device and within.is_relative_to(each.root)
    )
    return [path for path in dict.fromkeys(found) if path != real]


def with_aliases(paths: Iterable[Path]) -> dict[Path, Path]:
    """Return the real paths of these, and their other paths, as far as the same file is there: each with its path."""
    mounts, found = read_mounts(), dict[Path, Path]()
    for path in paths:
        real = Path(os.path.realpath(path))
        for each in (real, *(alias for alias in find_aliases(real, mounts) if _is_same(alias, real))):
            found.setdefault(each, path)
    return found


def _is_same(path: Path, other: Path) -> bool:
    """Return whether no further mount covers the path."""
    try:
        return path.samefile(other)
    except OSError:
        return False
