"""The log of a process in the background: its output and its errors. At 1 MiB it becomes `NAME.1`; a new one begins."""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.clock import wall_clock

_LIMIT: Final = 1 << 20


class RotatedLog(Struct, frozen=True):
    path: Path
    limit: int = _LIMIT

    def write(self, message: str) -> None:
        """Append a line with the time. A full disk must not stop the process."""
        try:
            if os.fstat(2).st_size >= self.limit:
                self.path.rename(self.path.with_name(f"{self.path.name}.1"))
                redirect_output(self.path)
            sys.stderr.write(f"{wall_clock():%Y-%m-%dT%H:%M:%SZ} {message}\n")
            sys.stderr.flush()
        except OSError:
            return


def open_log(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def redirect_output(path: Path) -> None:
    """Make a log standard output and standard error, so that whatever goes wrong is in it. Raises OSError."""
    log = open_log(path)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)


def last_lines(path: Path, count: int = 10) -> list[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, count)]
    except OSError:
        return []
