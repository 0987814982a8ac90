"""Memory limits without control groups: polls all processes and reports the containers over their limit.

Polling is coarser than the kernel: a burst between two polls is missed. Forked workers share pages with their parent,
so the sum of their resident sizes is only a cheap first check; above the limit, proportional sizes decide.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container

_MIN_INTERVAL = 0.1
# Polling hundreds of processes takes long; the interval grows so that it takes at most this share of the time.
_MAX_SHARE = 0.1


class Watchdog:
    """Limits by the inode of a mount namespace: all processes of a container are in the same one."""

    def __init__(self) -> None:
        self._limits: dict[int, int] = {}
        self._next = 0.0

    def watch(self, namespace: int, limit: int) -> None:
        self._limits[namespace] = limit

    def forget(self, namespace: int) -> None:
        self._limits.pop(namespace, None)

    def pause(self) -> float | None:
        """Seconds until the next poll; None if nothing is watched."""
        return max(0.0, self._next - time.monotonic()) if self._limits else None

    def poll(self) -> list[int]:
        """The namespaces over their limit; empty before it is time for the next poll."""
        started = time.monotonic()
        if not self._limits or started < self._next:
            return []
        over = []
        for namespace, pids in processes(self._limits).items():
            limit = self._limits[namespace]
            if sum(map(_resident, pids)) > limit and sum(map(_proportional, pids)) > limit:
                over.append(namespace)
        now = time.monotonic()
        self._next = now + max(_MIN_INTERVAL, (now - started) / _MAX_SHARE)
        return over


def processes(namespaces: Container[int]) -> dict[int, list[int]]:
    """The processes in each of these mount namespaces."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            namespace = mount_namespace(int(name))
            if namespace in namespaces:
                found.setdefault(namespace, []).append(int(name))
    return found


def mount_namespace(pid: int) -> int:
    """0 if the process has ended."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return 0


def _resident(pid: int) -> int:
    return _sum(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:"))


def _proportional(pid: int) -> int:
    return _sum(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))


def _sum(path: str, fields: tuple[bytes, ...]) -> int:
    """The sum in bytes of fields in kB; 0 if the process has ended."""
    try:
        with open(path, "rb") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(fields))
    except OSError:
        return 0
