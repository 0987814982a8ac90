"""Memory limits where there are no control groups: look at all processes ten times a second and kill who is over.

Coarser than the kernel: a burst between two looks gets through. Forked workers share pages with their parent, so that
the sum of what each has is only a first, cheap look; who seems to be over is measured again, shared pages by share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

_SHORTEST_PAUSE = 0.1
# A look at hundreds of processes takes its time; the watchdog itself shall not take more than this part of it.
_LARGEST_SHARE = 0.1


class Watchdog:
    """Limits by the inode of a container's mount namespace: all processes of a container are in the same one."""

    def __init__(self) -> None:
        self._limits: dict[int, int] = {}
        self._next = 0.0

    def watch(self, namespace: int, limit: int) -> None:
        self._limits[namespace] = limit

    def forget(self, namespace: int) -> None:
        self._limits.pop(namespace, None)

    def pause(self) -> float | None:
        """How long until the next look; None if there is nothing to look at."""
        return max(0.0, self._next - time.monotonic()) if self._limits else None

    def look(self) -> list[int]:
        """The namespaces over their limit, if it is time to look."""
        if not self._limits or time.monotonic() < self._next:
            return []
        started = time.monotonic()
        members = processes(self._limits)
        over = []
        for namespace, pids in members.items():
            limit = self._limits[namespace]
            if sum(map(_resident, pids)) > limit and sum(map(_proportional, pids)) > limit:
                over.append(namespace)
        now = time.monotonic()
        self._next = now + max(_SHORTEST_PAUSE, (now - started) / _LARGEST_SHARE)
        return over


def processes(namespaces: Mapping[int, int] | set[int]) -> dict[int, list[int]]:
    """The processes in each of these mount namespaces."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            namespace = mount_namespace(int(name))
            if namespace in namespaces:
                found.setdefault(namespace, []).append(int(name))
    return found


def mount_namespace(pid: int) -> int:
    """0 if the process is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return 0


def _resident(pid: int) -> int:
    return _sum(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:"))


def _proportional(pid: int) -> int:
    return _sum(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))


def _sum(path: str, fields: tuple[bytes, ...]) -> int:
    """The sum of fields in kB, in bytes; 0 if the process is gone."""
    try:
        with open(path, "rb") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(fields))
    except OSError:
        return 0
