"""The directory of a download, below the store: it outlives an interruption, and one process at a time holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pumice.engines.local.images.errors import from_os_error
from pumice.engines.local.images.layers import Report
from pumice.store.files.file_lock import lock_at_once
from pumice.store.files.remove_tree import remove_tree

_DOWNLOADS: Final = ".downloads"
_WEEK: Final = 7 * 24 * 3600  # seconds


@contextmanager
def download_directory(store: Path, digest: str, report: Report) -> Iterator[Path]:
    """Hold the directory for a manifest. It is removed at the end, and stays if an exception is raised."""
    directory = store / _DOWNLOADS / digest.removeprefix("sha256:")
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = _locked(directory, report)
    except OSError as error:
        raise from_os_error(error) from None
    try:
        os.utime(held)
        _remove_leftovers(directory)
        yield directory
        remove_tree(directory)
    except OSError as error:
        raise from_os_error(error) from None
    finally:
        os.close(held)


def _locked(directory: Path, report: Report) -> int:
    """Lock the directory and return its descriptor. The process that held it before has removed it."""
    while True:
        directory.mkdir(exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not lock_at_once(descriptor):
            report("waiting for another pumice process that pulls this image")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), directory.stat()):
                return descriptor
        os.close(descriptor)


def _remove_leftovers(newest: Path) -> None:
    """Remove what downloads left a week ago, and no process holds."""
    now = newest.stat().st_mtime
    for other in newest.parent.iterdir():
        if other != newest and now - other.stat().st_mtime > _WEEK:
            descriptor = os.open(other, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if lock_at_once(descriptor):
                remove_tree(other)
            os.close(descriptor)
