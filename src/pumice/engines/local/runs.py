"""The directories of runs: spec and logs stay, the pods' scratch goes with the run, at the latest with the next one.

A run holds a lock on its directory for as long as it lives, so that whoever finds it free knows that nobody is there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pumice.engines.local.trees import remove_tree

SCRATCH: Final = "scratch"
KEPT: Final = "kept"


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(directory)
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _sweep(mine: Path) -> None:
    """Remove what runs that were killed have left in their scratch directories."""
    for scratch in mine.parent.glob(f"*/{SCRATCH}"):
        if scratch.parent == mine:
            continue
        lock = os.open(scratch.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(scratch)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
