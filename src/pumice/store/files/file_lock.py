"""Locks of files. The kernel drops a lock when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


def lock_at_once(file: int | IO[Any]) -> bool:
    """Take the lock of an open file; False if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_lock(path: Path) -> int | None:
    """Return the descriptor that holds the lock; None if another process has it. Makes the file. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if lock_at_once(descriptor):
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock, and hold it meanwhile. Makes the file. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def wait_until_free(path: Path) -> None:
    """Return when no process has the lock. Makes no file."""
    with suppress(FileNotFoundError), path.open("rb+", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
