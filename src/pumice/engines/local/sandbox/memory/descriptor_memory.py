"""Memory that processes hold by descriptors: files in memory that no directory has (memfd), and what is in pipes.

Links in /proc/PID/fd say what a descriptor is. To read them, the kernel asks no file system, which might not answer.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import functools
import os
import termios
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pumice.engines.local.sandbox import kernel_files, syscalls

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEMFD = "/memfd:"
_SIZE_OF_BLOCK = 512
# A container with millions of descriptors takes long; what was found by then must do.
_LONGEST = 1.0


class DescriptorMemory(NamedTuple):
    """Bytes by inode, and the inodes of sockets."""

    memfds: dict[int, int]
    pipes: dict[int, int]
    sockets: set[int]

    @property
    def size(self) -> int:
        return sum(self.memfds.values()) + sum(self.pipes.values())


@functools.cache
def memory_device() -> int:
    """Return the device on which the kernel keeps memfds, SysV segments and shared memory without a name."""
    file = os.memfd_create("device", os.MFD_CLOEXEC)
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)


def most_in_pipes(slots: int) -> int:
    """Return how much pipes hold at most, given the slots for descriptors that processes have."""
    soft = int(kernel_files.read("/proc/sys/fs/pipe-user-pages-soft")) * _PAGE
    if soft:
        # All pipes of the user together. Beyond it, a pipe has two pages, and two descriptors.
        return soft + slots * _PAGE
    return slots * int(kernel_files.read("/proc/sys/fs/pipe-max-size"))


def read_descriptors(pids: Sequence[int], device: int) -> DescriptorMemory:
    """Each file, pipe and socket counts once, however many processes have it. `device` is that of memfds."""
    found = DescriptorMemory({}, {}, set())
    deadline = time.monotonic() + _LONGEST
    # Begins with another process each time, so that all are read even if there is no time for all.
    first = time.monotonic_ns() % max(1, len(pids))
    for pid in (*pids[first:], *pids[:first]):
        for thread in _tables(pid):
            _read_table(thread, device, found)
        if time.monotonic() > deadline:
            break
    return found


def _tables(pid: int) -> Iterator[int]:
    """Yield a thread for each table of descriptors that a process has: threads can have tables of their own."""
    yield pid
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        if len(threads) > 1:
            yield from (int(each) for each in threads if not syscalls.have_same_files(pid, int(each)))


def _read_table(thread: int, device: int, found: DescriptorMemory) -> None:
    directory = f"/proc/{thread}/fd"
    with contextlib.suppress(OSError):
        for number in os.listdir(directory):
            with contextlib.suppress(OSError):
                name = os.readlink(f"{directory}/{number}")
                if name.startswith("socket:["):
                    found.sockets.add(int(name[8:-1]))
                elif name.startswith("pipe:["):
                    if (inode := int(name[6:-1])) not in found.pipes:
                        found.pipes[inode] = _in_pipe(thread, int(number))
                elif name.startswith(_MEMFD):
                    status = os.stat(f"{directory}/{number}")
                    if status.st_dev == device:
                        found.memfds[status.st_ino] = status.st_blocks * _SIZE_OF_BLOCK


def _in_pipe(pid: int, number: int) -> int:
    """Return what the content of a pipe takes at most: each byte may take a page."""
    descriptor = syscalls.copy_descriptor(pid, number)
    try:
        content = array.array("i", [0])
        fcntl.ioctl(descriptor, termios.FIONREAD, content)
        return min(fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ), content[0] * _PAGE)
    finally:
        os.close(descriptor)
