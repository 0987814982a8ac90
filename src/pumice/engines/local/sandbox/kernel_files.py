"""Reads and writes files of /proc and /sys. Their paths may contain any bytes, of which the kernel escapes a few."""

from __future__ import annotations

import os

_PREFERRED = 500  # added to oom_score_adj, which is at most 1000
_MOST_PREFERRED = 1000
_CHUNK = 1 << 16


def read(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read())


def read_lines(path: str) -> list[str]:
    """Split at line feeds only: str.splitlines also splits at characters that directory names may contain."""
    return read(path).removesuffix("\n").split("\n")


def read_again(descriptor: int) -> bytes:
    """Read an open file of /proc from its beginning: it shows the namespace in which it was opened."""
    content = b""
    while part := os.pread(descriptor, _CHUNK, len(content)):
        content += part
    return content


def pid_in_proc(pidfd: int) -> int:
    """Return the pid of a process in /proc, which may be that of an outer namespace; 0 if it has ended."""
    try:
        lines = read_lines(f"/proc/self/fdinfo/{pidfd}")
    except OSError:
        return 0
    return max(0, *(int(line.split()[1]) for line in lines if line.startswith("Pid:")), 0)


def write(path: str, value: str) -> None:
    # Without a buffer: the kernel takes a value by one call.
    with open(path, "wb", buffering=0) as file:
        file.write(os.fsencode(value))


def prefer_for_oom() -> None:
    """Have the kernel end this process before others when memory is exhausted: a pod, not what supervises it.

    Uses system calls only, because it is called between fork and exec.
    """
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(file, b"%d" % min(_MOST_PREFERRED, int(os.read(file, 16)) + _PREFERRED))
    except (OSError, ValueError):
        return
    finally:
        os.close(file)


def mount_point(line: str) -> str:
    """The mount point in a line of /proc/self/mountinfo."""
    return _unescape(line.split(" ")[4])


def mounted_root(line: str) -> str:
    """The directory of the file system that is mounted there."""
    return _unescape(line.split(" ")[3])


def _unescape(path: str) -> str:
    first, *escaped = os.fsencode(path).split(b"\\")
    # A backslash and three octal digits stand for one byte; a backslash itself is escaped, too.
    return os.fsdecode(first + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in escaped))
