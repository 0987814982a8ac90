"""Directories of the machine that no pod gets as a whole, for any user and any job.

The root of the machine, mounted over that of a pod, would be at `/..` in it. Systemd units, cron jobs and many
containers have `/` as their working directory, so this is no rare mistake.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

# Homes, /root among them, are a question of consent.
NEVER_SHARED: Final = frozenset(
    ("/", "/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/boot", "/home", "/var", "/tmp")  # noqa: S108 - not used
)


def is_never_shared(path: Path) -> bool:
    """Judge a path by where it leads. What is below /proc differs from process to process, so none of it is shared."""
    real = os.path.realpath(path)
    return real in NEVER_SHARED or os.path.normpath(path).startswith("/proc/") or real.startswith("/proc/")


def why_not(path: Path) -> str:
    real = os.path.realpath(path)
    leads = "" if real == str(path) else f", which leads to {real},"
    return f"{path}{leads} is a directory of the system, which pods do not get"
