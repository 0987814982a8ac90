"""A job's scratch directory, locked while any process of the job lives; the next job removes those of dead jobs.

The supervisor and job-init share the lock, a flock. The kernel releases it when the last of them ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from typing import TYPE_CHECKING

from pumice.engines.local.sandbox.init import cgroups

if TYPE_CHECKING:
    # job-init does not load it.
    from pathlib import Path

_LOCK = "lock"


def claim(parent: Path, name: str) -> tuple[Path, int]:
    """Create a directory in `parent` and return it with the descriptor of its lock. Removes those of dead jobs."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    turn = os.open(parent / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # One at a time: a new directory that is not locked yet would look like a dead job's.
        fcntl.flock(turn, fcntl.LOCK_EX)
        sweep(parent)
        directory = parent / f"{name[:40]}-{os.urandom(4).hex()}"
        directory.mkdir(mode=0o700)
        try:
            lock = os.open(directory / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            # The disk is full: leave nothing behind.
            directory.rmdir()
            raise
        fcntl.flock(lock, fcntl.LOCK_EX)
        return directory, lock
    finally:
        os.close(turn)


def sweep(parent: Path) -> None:
    """Remove the directories of dead jobs."""
    for directory in parent.iterdir():
        if directory.is_dir() and not directory.is_symlink() and _is_dead(directory):
            # Its supervisor was killed, too.
            cgroups.remove_groups(directory.name)
            remove(directory)


def _is_dead(directory: Path) -> bool:
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        # It belongs to another user.
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def remove(directory: str | Path) -> None:
    """Remove a tree, including the directories of mode 000 that overlays leave behind."""
    for path, directories, _ in os.walk(directory):
        for name in directories:
            inner = os.path.join(path, name)
            if not os.path.islink(inner) and not os.access(inner, os.R_OK | os.W_OK | os.X_OK):
                with contextlib.suppress(OSError):
                    os.chmod(inner, 0o700)
    shutil.rmtree(directory, ignore_errors=True)
