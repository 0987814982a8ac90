"""Memory limits without control groups: polls all processes and reports the containers over their limit.

Polling is coarser than the kernel: a burst between two polls is missed. Forked workers share pages with their parent,
so the sum of their resident sizes is only a cheap first check; above the limit, proportional sizes decide. Files in
memory (tmpfs) count as well, once: what processes map of them is not counted again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Container, Sequence

_MIN_INTERVAL = 0.1
# Polling hundreds of processes takes long; the interval grows so that it takes at most this share of the time.
_MAX_SHARE = 0.1
RESIDENT = ("status", (b"RssAnon:", b"RssShmem:"))
PROPORTIONAL = ("smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))


class Watchdog:
    """Limits by the inode of a mount namespace: all processes of a container are in the same one."""

    def __init__(self) -> None:
        self._limits: dict[int, int] = {}
        self._file_systems: dict[int, tuple[str, ...]] = {}
        self._next = 0.0

    def watch(self, namespace: int, limit: int, file_systems: tuple[str, ...] = ()) -> None:
        """`file_systems` are paths in each tmpfs of the container."""
        self._limits[namespace] = limit
        self._file_systems[namespace] = file_systems

    def forget(self, namespace: int) -> None:
        self._limits.pop(namespace, None)
        self._file_systems.pop(namespace, None)

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
            files, devices = _files(self._file_systems[namespace])
            if memory_of(pids, *RESIDENT) + files > limit:
                mapped = _mapped(pids, devices) if files else 0
                if memory_of(pids, *PROPORTIONAL) - mapped + files > limit:
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


def _files(paths: tuple[str, ...]) -> tuple[int, set[str]]:
    """The bytes in these file systems, and their devices as /proc/PID/smaps names them."""
    used, devices = 0, set()
    for path in paths:
        with contextlib.suppress(OSError):
            found = os.statvfs(path)
            used += (found.f_blocks - found.f_bfree) * found.f_frsize
            for directory in (path, f"{path}dev/shm") if path.endswith("/") else (path,):
                device = os.stat(directory).st_dev
                devices.add(f"{os.major(device):02x}:{os.minor(device):02x}")
    return used, devices


def _mapped(pids: list[int], devices: set[str]) -> int:
    """The proportional size of what processes map of files on these devices."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps") as lines:
            counts = False
            for line in lines:
                words = line.split()
                if "-" in words[0]:
                    counts = words[3] in devices
                elif counts and words[0] == "Pss:":
                    total += int(words[1]) << 10
    return total


def memory_of(pids: Sequence[int], file: str, fields: tuple[bytes, ...]) -> int:
    """The sum in bytes of fields in kB; 0 for a process that has ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{file}", "rb") as lines:
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(fields))
    return total
