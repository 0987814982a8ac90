"""Changes below one directory that cannot get out of it: every step down is one open that refuses symbolic links.

Paths are tuples of plain names, as `parts` makes them. The directories on the way to the last one stay open, because
the entries of a layer come directory by directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.state.remove_tree import remove_tree

Parts = tuple[str, ...]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Leaves room for the path of the store within the kernel's 4096.
_LONGEST_NAME: Final = 3000
_DEEPEST: Final = 256
_NOT_A_DIRECTORY: Final = (errno.ENOTDIR, errno.ELOOP)


def parts(name: str) -> Parts:
    """The steps of a name in an archive, seen from the root of the image: a leading slash changes nothing.

    A name that climbs out of the root is an error, even if it would come back.
    """
    steps: list[str] = []
    for step in name.split("/"):
        if step == "..":
            if not steps:
                raise ImageError(f"{name}: climbs out of the image")
            steps.pop()
        elif step not in {"", "."}:
            steps.append(step)
    if len(name) > _LONGEST_NAME or len(steps) > _DEEPEST or "\0" in name:
        raise ImageError(f"{name[:80]}...: no file can have this name")
    return tuple(steps)


class ConfinedDirectory:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._open = [os.open(root, _DIRECTORY)]
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close_to(0)
        os.close(self._open.pop())

    def directory(self, path: Sequence[str], *, make: bool = True) -> int:
        """An open directory, good until the next call. Those that are missing are made, if that is wanted."""
        common = 0
        while common < min(len(path), len(self._names)) and path[common] == self._names[common]:
            common += 1
        self._close_to(common)
        for name in path[common:]:
            self._open.append(self._step(name, make=make))
            self._names.append(name)
        return self._open[-1]

    def status(self, path: Parts) -> os.stat_result | None:
        """What is there, a link being a link; None if there is nothing."""
        try:
            return os.stat(path[-1], dir_fd=self.directory(path[:-1], make=False), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def remove(self, path: Parts) -> None:
        """Remove whatever is there, a directory with everything in it."""
        found = self.status(path)
        if found is None:
            return
        parent = self.directory(path[:-1])
        if stat.S_ISDIR(found.st_mode):
            # The way there was just walked without a link, and nobody else has access to the root.
            remove_tree(self._root.joinpath(*path))
        else:
            os.unlink(path[-1], dir_fd=parent)

    def _step(self, name: str, *, make: bool) -> int:
        here = self._open[-1]
        try:
            return os.open(name, _DIRECTORY, dir_fd=here)
        except FileNotFoundError:
            if not make:
                raise
            os.mkdir(name, 0o755, dir_fd=here)
            return os.open(name, _DIRECTORY, dir_fd=here)
        except OSError as error:
            if error.errno not in _NOT_A_DIRECTORY:
                raise
            raise ImageError(f"{'/'.join((*self._names, name))}: {self._obstacle(name)}") from None

    def _obstacle(self, name: str) -> str:
        try:
            return f"is a symbolic link to {os.readlink(name, dir_fd=self._open[-1])}, which is not followed"
        except OSError:
            return "is not a directory"

    def _close_to(self, depth: int) -> None:
        while len(self._names) > depth:
            self._names.pop()
            os.close(self._open.pop())
