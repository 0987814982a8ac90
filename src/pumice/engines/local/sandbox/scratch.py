"""A job's scratch directory: locked while anything of the job lives, swept by whoever comes next.

The lock is a flock that keeper and job-init share. The kernel drops it with the last of them, however they end.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from pathlib import Path

_LOCK = "lock"


def claim(stage: Path, name: str) -> tuple[Path, int]:
    """A new directory in `stage` and the descriptor that holds its lock. Clears away what dead jobs left there."""
    stage.mkdir(parents=True, exist_ok=True, mode=0o700)
    turn = os.open(stage / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # Without taking turns, a directory whose lock is not held yet could be taken for a dead one.
        fcntl.flock(turn, fcntl.LOCK_EX)
        sweep(stage)
        directory = stage / f"{name[:40]}-{secrets.token_hex(4)}"
        directory.mkdir(mode=0o700)
        try:
            lock = os.open(directory / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            # The disk is full: nothing of ours shall be in the way of others.
            directory.rmdir()
            raise
        fcntl.flock(lock, fcntl.LOCK_EX)
        return directory, lock
    finally:
        os.close(turn)


def sweep(stage: Path) -> None:
    for directory in stage.iterdir():
        if directory.is_dir() and not directory.is_symlink() and _is_dead(directory):
            remove(directory)


def _is_dead(directory: Path) -> bool:
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        # Another user's, who alone can tell.
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def remove(directory: Path) -> None:
    """A tree, with the directories of mode 000 in it that overlays leave behind."""
    for path, directories, _ in os.walk(directory):
        for name in directories:
            inner = os.path.join(path, name)
            if not os.path.islink(inner) and not os.access(inner, os.R_OK | os.W_OK | os.X_OK):
                _open_up(inner)
    shutil.rmtree(directory, ignore_errors=True)


def _open_up(directory: str) -> None:
    try:
        os.chmod(directory, 0o700)
    except OSError:
        return
