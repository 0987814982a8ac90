"""Directories deeper than programs can call, which pytest could not remove."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pumice.store.files.remove_tree import remove_tree


@contextmanager
def deep_tree(top: Path, name: str, levels: int) -> Iterator[None]:
    """Make a directory with others in it, each in the one before; remove them at the end."""
    directory = os.open(top, os.O_RDONLY)
    try:
        for part in (name, *["d"] * (levels - 1)):
            os.mkdir(part, dir_fd=directory)
            above, directory = directory, os.open(part, os.O_RDONLY, dir_fd=directory)
            os.close(above)
        yield
    finally:
        os.close(directory)
        remove_tree(top / name)
