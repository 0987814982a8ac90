"""Finds the Unix sockets of this machine's programs: a pod that can open the file reaches the program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_TABLE: Final = Path("/proc/net/unix")
_FIELDS: Final = 8  # the last is the path
_FRESH: Final = 0.5  # seconds for which the table is not read again: large jobs ask once per container


class HostSockets:
    def __init__(self, table: Path = _TABLE, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._clock = clock
        self._read = float("-inf")
        self._paths: list[str] = []

    def below(self, source: str) -> list[str]:
        """Return the sockets in a directory, relative to it.

        The kernel lists a path as its program gave it. A relative one may end in any directory, so every end counts.
        """
        if self._clock() - self._read > _FRESH:
            self._paths, self._read = self._current(), self._clock()
        prefix = os.path.realpath(source).rstrip("/") + "/"
        found = [path[len(prefix) - 1 :] for path in self._paths if path.startswith(prefix)]
        relative = {path for path in self._paths if not path.startswith("/")}
        ends = {end for path in relative for end in _ends(path)}
        return found + [f"/{end}" for end in sorted(ends) if Path(source, end).is_socket()]

    def _current(self) -> list[str]:
        """Read the sockets of this network namespace, which those of other containers and pods are not in."""
        try:
            lines = self._table.read_text(errors="surrogateescape").splitlines()[1:]
        except OSError:
            return []
        paths = [fields[-1] for line in lines if len(fields := line.split(None, _FIELDS - 1)) == _FIELDS]
        # A name in the abstract namespace begins with @; it belongs to a network, not to a file.
        return [os.path.realpath(path) if path.startswith("/") else path for path in paths if not path.startswith("@")]


def _ends(path: str) -> list[str]:
    """Return `b/c` and `c` for `../b/c`."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return ["/".join(parts[start:]) for start in range(len(parts))]
