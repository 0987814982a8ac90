"""Reads files of the store, which other processes write and remove meanwhile: a file that cannot be read is empty.

Paths are strings, because a Path for each of thousands of runs takes longer than the system call.
"""

from __future__ import annotations

import os


def read_part(path: str, offset: int, size: int) -> bytes:
    """Return a part of a file. The oldest segments of a long log are removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def size_of(path: str) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - see above
    except OSError:
        return 0


def modified_at(path: str) -> int:
    """Return when a file or a directory was modified, in nanoseconds since 1970; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - see above
    except OSError:
        return 0
