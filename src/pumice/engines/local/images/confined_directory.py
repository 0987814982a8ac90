"""Files below one directory and never outside of it.

`ConfinedDirectory` changes them: each step down is an open that refuses symbolic links. Paths are tuples of plain
names, as `parts` returns them. Directories on the last path stay open, because the entries of a layer are sorted by
directory.

`read_inside` reads a small file of an image from outside, and resolves links within the image. Otherwise `etc/passwd ->
/etc/shadow` would read the host's file, and a named pipe would block.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from pumice.engines.local.images.errors import ImageError
from pumice.store.files.remove_tree import remove_tree

Parts = tuple[str, ...]
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Below the kernel's limit of 4096, which includes the path of the store.
_LONGEST_NAME: Final = 3000
_DEEPEST: Final = 256
_NOT_A_DIRECTORY: Final = (errno.ENOTDIR, errno.ELOOP)
_MOST_LINKS: Final = 40
_LARGEST: Final = 1 << 20


def parts(name: str) -> Parts:
    """Split a name in an archive; it is relative to the image's root, even with a leading slash.

    Raises ImageError for a name that leaves the root, even if it would return.
    """
    steps: list[str] = []
    for step in name.split("/"):
        if step == "..":
            if not steps:
                raise ImageError(f"{name}: leaves the image")
            steps.pop()
        elif step not in {"", "."}:
            steps.append(step)
    if len(name) > _LONGEST_NAME or len(steps) > _DEEPEST or "\0" in name:
        raise ImageError(f"{name[:80]}...: is not a valid file name")
    return tuple(steps)


class ConfinedDirectory:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._open = [os.open(root, _DIRECTORY)]
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_to(0)
        os.close(self._open.pop())

    def directory(self, path: Sequence[str], *, make: bool = True) -> int:
        """Return a descriptor of the directory, valid until the next call; `make` creates missing directories."""
        common = 0
        while common < min(len(path), len(self._names)) and path[common] == self._names[common]:
            common += 1
        self._close_to(common)
        for name in path[common:]:
            self._open.append(self._step(name, make=make))
            self._names.append(name)
        return self._open[-1]

    def status(self, path: Parts) -> os.stat_result | None:
        """Return the status of a path without following links; None if it does not exist."""
        try:
            return os.stat(path[-1], dir_fd=self.directory(path[:-1], make=False), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def remove(self, path: Parts) -> None:
        """Remove a file, or a directory with its contents."""
        found = self.status(path)
        if found is None:
            return
        parent = self.directory(path[:-1])
        if stat.S_ISDIR(found.st_mode):
            # The path was just walked without links, and no other process changes the root.
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
            why = "is not a directory"
            with suppress(OSError):
                why = f"is a symbolic link to {os.readlink(name, dir_fd=here)}, which is not followed"
            raise ImageError(f"{'/'.join((*self._names, name))}: {why}") from None

    def _close_to(self, depth: int) -> None:
        while len(self._names) > depth:
            self._names.pop()
            os.close(self._open.pop())


def read_inside(root: Path, name: str) -> str:
    """Return the text of a file, at most its first megabyte; empty if there is no such file."""
    try:
        path = _resolve(root, name)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    data = b""
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            while part := os.read(descriptor, _LARGEST - len(data)):
                data += part
    finally:
        os.close(descriptor)
    return data.decode("utf-8", "surrogateescape")


def _resolve(root: Path, name: str) -> Path:
    done: list[str] = []
    todo = name.split("/")[::-1]
    links = 0
    while todo:
        step = todo.pop()
        if step == "..":
            done = done[:-1]
        elif step not in {"", "."}:
            here = root.joinpath(*done, step)
            if here.is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(f"{name}: too many links")
                target = str(here.readlink())
                todo += target.split("/")[::-1]
                done = [] if target.startswith("/") else done
            else:
                done.append(step)
    return root.joinpath(*done)
