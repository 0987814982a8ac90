"""The size of files in memory: of a tmpfs, and of those that processes mount in mount namespaces of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from pumice.engines.local.sandbox import kernel_files, syscalls

# What the kernel takes for a file besides its content: an inode and a name.
_SIZE_OF_INODE = 1024


def tmpfs_size(path: str | int) -> int:
    """`path` may be a descriptor."""
    found = os.statvfs(path)
    return (found.f_blocks - found.f_bfree) * found.f_frsize + (found.f_files - found.f_ffree) * _SIZE_OF_INODE


def tmpfs_mounts(pid: int) -> dict[int, str]:
    """Return the mount points of all tmpfs that a process sees, by device."""
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for line in kernel_files.read_lines(f"/proc/{pid}/mountinfo"):
            before, _, after = line.partition(" - ")
            if after.startswith("tmpfs "):
                major, _, minor = before.split(" ")[2].partition(":")
                found.setdefault(os.makedev(int(major), int(minor)), kernel_files.mount_point(line))
    return found


def nested_tmpfs(pid: int, outer: Collection[int]) -> dict[int, int]:
    """Return the size of each tmpfs that a process sees, by device, without those on `outer` devices.

    What another mount covers, or is outside of the root directory of the process, is not seen.
    """
    found = {}
    for device, path in tmpfs_mounts(pid).items():
        if device not in outer:
            with contextlib.suppress(OSError):
                # The process can change the path at any time, so no link in it is followed.
                opened = syscalls.open_beneath(f"/proc/{pid}/root", path.lstrip("/") or ".")
                try:
                    if os.fstat(opened).st_dev == device:
                        found[device] = tmpfs_size(opened)
                finally:
                    os.close(opened)
    return found
