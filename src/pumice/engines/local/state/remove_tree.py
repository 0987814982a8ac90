"""Removes directory trees that others have filled.

They may be of any depth, have modes that shut out even their owner, and hold links that lead elsewhere, which are
removed and never followed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

_MINE = 0o700


def remove_tree(path: Path) -> None:
    """Remove a file or a whole tree; if there is none, nothing is done."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        _empty(path)
        path.rmdir()


def _empty(top: Path) -> None:
    """Deep trees are brought up level by level, so that neither the stack nor the length of a path sets a limit."""
    names = (f".removing-{number}" for number in itertools.count())
    while directories := list(_directories(top)):
        for directory in directories:
            for inner in _directories(directory):
                inner.rename(_free_name(top, names))
            directory.rmdir()


def _directories(place: Path) -> Iterator[Path]:
    """Remove the files of a directory, and yield the directories in it."""
    place.chmod(_MINE)
    with os.scandir(place) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            # Moving a directory changes the entry in it that leads up, so it has to be writable itself.
            Path(entry.path).chmod(_MINE)
            yield Path(entry.path)
        else:
            Path(entry.path).unlink()


def _free_name(top: Path, names: Iterator[str]) -> Path:
    return next(place for name in names if not os.path.lexists(place := top / name))
