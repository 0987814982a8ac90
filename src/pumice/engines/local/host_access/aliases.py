"""Other paths of this machine at which the same files are: a file system may be mounted at several directories.

Links are resolved elsewhere. A bind mount is none: a home may also be at `/export/home`, where a rule by path would not
find it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.sandbox.kernel_files import mount_point, mounted_root

_TABLE: Final = Path("/proc/self/mountinfo")


class MountedTree(Struct, frozen=True):
    """A directory `root` of a file system, and where it is mounted."""

    device: str
    root: str
    point: str


def read_mounts(table: Path = _TABLE) -> list[MountedTree]:
    """Return the mounts of this process; none where /proc does not list them."""
    try:
        lines = table.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return []
    return [MountedTree(line.split(" ")[2], mounted_root(line), mount_point(line)) for line in lines if line]


def find_aliases(real: Path, mounts: Sequence[MountedTree]) -> list[Path]:
    """Return the other paths of a real path."""
    # As text: there may be hundreds of mounts, and paths as objects would take a tenth of the start of a run.
    path = str(real)
    holders = [each for each in mounts if is_below(path, each.point)]
    if not holders:
        return []
    holder = max(holders, key=lambda each: len(each.point))
    within = _moved(path, holder.point, holder.root)
    aliases = (
        _moved(within, each.root, each.point)
        for each in mounts
        if each.device == holder.device and is_below(within, each.root)
    )
    return [Path(alias) for alias in dict.fromkeys(aliases) if alias != path]


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is that of a directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _moved(path: str, source: str, destination: str) -> str:
    """Return a path below `source` as it is below `destination`."""
    return (destination.rstrip("/") + path[len(source.rstrip("/")) :]).rstrip("/") or "/"


def with_aliases(paths: Iterable[Path]) -> dict[Path, Path]:
    """Return the real paths of these, and their other paths, as far as the same file is there: each with its path."""
    mounts, found = read_mounts(), dict[Path, Path]()
    for path in paths:
        real = Path(os.path.realpath(path))
        found.setdefault(real, path)
        for alias in find_aliases(real, mounts):
            # A further mount may cover it.
            with suppress(OSError):
                if alias.samefile(real):
                    found.setdefault(alias, path)
    return found
