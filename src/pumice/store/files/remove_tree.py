"""Removes directory trees with untrusted content.

A tree may have any depth, modes that lock out its owner, and links, which are removed and never followed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

_OWNER_ONLY = 0o700


def remove_tree(path: Path) -> None:
    """Remove a file or a tree, if it exists."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # Deep directories are moved up level by level, so that neither stack depth nor path length is a limit.
    names = (f".removing-{number}" for number in itertools.count())
    while directories := list(_directories(path)):
        for directory in directories:
            for inner in _directories(directory):
                inner.rename(next(free for name in names if not os.path.lexists(free := path / name)))
            directory.rmdir()
    path.rmdir()


def _directories(directory: Path) -> Iterator[Path]:
    """Remove the files of a directory, and yield its directories."""
    directory.chmod(_OWNER_ONLY)
    with os.scandir(directory) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            # Moving a directory changes its `..` entry, so it must be writable itself.
            Path(entry.path).chmod(_OWNER_ONLY)
            yield Path(entry.path)
        else:
            Path(entry.path).unlink()
