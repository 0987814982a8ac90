"""Opens files beneath a directory by descriptors: no link is followed, whoever changes the tree meanwhile.

Pods write to the working directory, and so to `.git` in it. A pipe or a device there is not waited for.
"""

from __future__ import annotations

import os
import re
import stat
from collections import OrderedDict
from contextlib import suppress
from typing import Final, Self

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MOST_OPEN: Final = 64
DEEPEST: Final = 128  # directories above a file
_CHUNK: Final = 1 << 20
_GIT: Final = re.compile(r"\.git[ .]*|git~1", re.IGNORECASE)
_OUTSIDE: Final = re.compile(rf"(?:\A|/)(?:\.{{0,2}}|{_GIT.pattern})(?:/|\Z)|\0", re.IGNORECASE)


class TooLargeError(OSError):
    """A file is larger than it may be."""


class Directory:
    """A directory and everything beneath it. Paths are relative, without `..`; "" is the directory itself."""

    def __init__(self, path: str, *, follow: bool = True) -> None:
        """Open it; unless `follow`, the absolute path has no link. Raises OSError."""
        self.path = path
        self.descriptor = os.open(path if follow else "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in () if follow else path.strip("/").split("/"):
            above = self.descriptor
            try:
                self.descriptor = os.open(_checked(name), _OPEN | os.O_DIRECTORY, dir_fd=above)
            finally:
                os.close(above)
        self._opened: OrderedDict[str, int] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in (*self._opened.values(), self.descriptor):
            os.close(descriptor)
        self._opened.clear()

    def directory(self, path: str) -> int:
        """Return the descriptor of a directory, which stays open for a while. Raises OSError."""
        if not path:
            return self.descriptor
        if path in self._opened:
            self._opened.move_to_end(path)
            return self._opened[path]
        if path.count("/") >= DEEPEST:
            raise OSError(0, f"is more than {DEEPEST} directories deep", path)
        above, _, name = path.rpartition("/")
        descriptor = os.open(_checked(name), _OPEN | os.O_DIRECTORY, dir_fd=self.directory(above))
        self._opened[path] = descriptor
        if len(self._opened) > _MOST_OPEN:
            os.close(self._opened.popitem(last=False)[1])
        return descriptor

    def open(self, path: str) -> int:
        """Open a regular file. Raises OSError."""
        above, _, name = path.rpartition("/")
        descriptor = os.open(_checked(name), _OPEN, dir_fd=self.directory(above))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(0, "is not a file", path)
        return descriptor

    def create(self, path: str, mode: int) -> int:
        """Make a file and open it for writing; its directory exists. A link is not followed. Raises OSError."""
        above, _, name = path.rpartition("/")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(_checked(name), flags, mode, dir_fd=self.directory(above))

    def read(self, path: str, most: int) -> bytes:
        """Return the content of a regular file. Raises TooLargeError and other OSErrors."""
        descriptor = self.open(path)
        try:
            return read_all(descriptor, most, path)
        finally:
            os.close(descriptor)

    def read_if_there(self, path: str, most: int) -> bytes | None:
        """Return the content of a regular file; None if there is no such file. Raises OSError."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return self.read(path, most)
        return None

    def stat(self, path: str) -> os.stat_result:
        """Return what is known of a file, also of a link. Raises OSError."""
        above, _, name = path.rpartition("/")
        return os.stat(_checked(name), dir_fd=self.directory(above), follow_symlinks=False)

    def link(self, path: str) -> str:
        """Return where a link leads. Raises OSError."""
        above, _, name = path.rpartition("/")
        return os.readlink(_checked(name), dir_fd=self.directory(above))


def read_all(descriptor: int, most: int, path: str = "") -> bytes:
    """Return the rest of a file. Raises TooLargeError and other OSErrors."""
    parts, size = [], 0
    while part := os.read(descriptor, _CHUNK):
        size += len(part)
        if size > most:
            raise TooLargeError(0, f"is larger than {most} bytes", path)
        parts.append(part)
    return b"".join(parts)


def is_inside(path: str) -> bool:
    """Whether a relative path stays beneath the directory that it starts from, and not in any `.git`."""
    return _OUTSIDE.search(path) is None


def is_git(name: str) -> bool:
    """Whether a name means `.git` on some file system."""
    return name[:1] in (".", "g", "G") and _GIT.fullmatch(name) is not None


def leads_out(path: str, target: str) -> bool:
    """Whether a link at a relative path leads out of the tree, or into `.git`."""
    if target.startswith("/"):
        return True
    parts = path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            if not parts:
                return True
            parts.pop()
        elif is_git(part) or "\0" in part:
            return True
        elif part not in ("", "."):
            parts.append(part)
    return False


def _checked(name: str) -> str:
    if name in ("", ".", "..") or "\0" in name:
        raise OSError(0, "is no name of a file", name)
    return name
