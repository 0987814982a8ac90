"""Finds the descendants of processes, on systems with a /proc."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path


def descendants(roots: Iterable[int]) -> dict[int, list[int]]:
    """Return the descendants of each root, without the root itself."""
    children: dict[int, list[int]] = {}
    # Not "[0-9]*/stat": pathlib raises ProcessLookupError if a process ends while it looks whether the file exists.
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name in parentheses may contain anything.
            parent = int((directory / "stat").read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(directory.name))
    found: dict[int, list[int]] = {}
    for root in roots:
        below = list(children.get(root, ()))
        for pid in below:
            below.extend(children.get(pid, ()))
        found[root] = below
    return found
