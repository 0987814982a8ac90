"""The memory of processes: their own and shared memory, resident or swapped out, and the page tables for it.

The sum of resident sizes counts memory that processes share several times: it is a cheap upper bound. Proportional
sizes count it once, but take the kernel long to compute.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pumice.engines.local.sandbox import syscalls

_STATUS = re.compile(rb"^(PPid|FDSize|RssAnon|RssShmem|VmPTE|VmSwap):\s+(\d+)", re.MULTILINE)
_RESIDENT = (b"RssAnon", b"RssShmem", b"VmPTE", b"VmSwap")
_HAS_MEMORY = b"\nRssAnon:"
_PROPORTIONAL = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_SYSV = b"/SYSV"
_CHUNK = 1 << 16


class Status(NamedTuple):
    pid: int  # of the process, or of a thread that outlives the first
    parent: int
    resident: int  # bytes, with the page tables
    shared: int  # of it, files in memory and memory that processes share on purpose
    page_tables: int
    slots: int  # for open files


class CountedFiles(NamedTuple):
    """Files in memory that are counted by themselves: all on some devices, memfds and SysV segments by inode."""

    devices: Collection[bytes] = ()  # as /proc/PID/smaps shows them
    memory_device: bytes = b""  # of all memfds and SysV segments
    memfds: Collection[int] = ()
    segments: Collection[int] = ()

    def contain(self, device: bytes, inode: int, path: bytes) -> bool:
        if device != self.memory_device:
            return device in self.devices
        return inode in (self.segments if path.startswith(_SYSV) else self.memfds)


def device_text(device: int) -> bytes:
    """Return a device as /proc/PID/smaps shows it."""
    return b"%02x:%02x" % (os.major(device), os.minor(device))


def read_status(pid: int) -> Status | None:
    """Return None if the process has ended."""
    thread, text = _living(pid)
    fields = {name: int(value) for name, value in _STATUS.findall(text)}
    if b"PPid" not in fields:
        return None
    sizes = {name: fields.get(name, 0) << 10 for name in _RESIDENT}
    return Status(
        thread,
        fields[b"PPid"],
        sum(sizes.values()),
        sizes[b"RssShmem"],
        sizes[b"VmPTE"],
        fields.get(b"FDSize", 0),
    )


def read_statuses(pids: Iterable[int]) -> list[Status]:
    return [status for status in map(read_status, pids) if status is not None]


def live_thread(pid: int) -> int:
    """Return a thread that shows what its process has: the first, if it has not ended."""
    return _living(pid)[0]


def _living(pid: int) -> tuple[int, bytes]:
    text = _status(pid)
    if _HAS_MEMORY not in text and b"\nState:\tZ" in text:
        # The first thread has ended. If others live on, the process shows nothing of its memory.
        with contextlib.suppress(OSError):
            for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                other = _status(thread)
                if _HAS_MEMORY in other:
                    return thread, other
    return pid, text


def _status(pid: int) -> bytes:
    try:
        file = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        text = part = os.read(file, _CHUNK)
        while len(part) == _CHUNK:
            part = os.read(file, _CHUNK)
            text += part
    except OSError:
        return b""
    finally:
        os.close(file)
    return text


def resident(processes: Iterable[Status]) -> int:
    return sum(status.resident for status in processes)


def proportional(processes: Sequence[Status], counted: CountedFiles | None = None) -> int:
    """Return the memory of processes, of which what several share counts once, without the files in `counted`."""
    total = 0
    known = {status.pid for status in processes}
    for status in processes:
        if status.parent in known and syscalls.have_same_memory(status.pid, status.parent):
            # A child of vfork() uses the memory of its parent until it executes its program.
            continue
        try:
            with open(f"/proc/{status.pid}/smaps_rollup", "rb") as lines:
                total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_PROPORTIONAL))
        except PermissionError:
            # Of a program that the user may not read.
            total += status.resident
            continue
        except OSError:
            continue
        total += status.page_tables
        if counted is not None and status.shared:
            total -= _mapped(status.pid, counted)
    return total


def _mapped(pid: int, counted: CountedFiles) -> int:
    """Return the proportional size of what a process maps of counted files, without its own copies of their pages."""
    total = 0
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps", "rb") as lines:
        counts, size = False, 0
        for line in lines:
            words = line.split(maxsplit=5)
            if b"-" in words[0]:
                _, _, _, device, inode, *path = words
                counts = counted.contain(device, int(inode), b"".join(path))
            elif counts and words[0] == b"Pss:":
                size = int(words[1])
            elif counts and words[0] == b"Anonymous:":
                total += max(0, size - int(words[1])) << 10
    return total
