"""/dev, /proc and /sys of a container: enough to work with, nothing that reaches the machine.

The device files are bound one by one, read-only: writing to a device is not writing to its file system, but changing
the mode or owner of the host's /dev/null would be. Where the container's root is the machine's root (all users
mapped), /proc/sys and its like check the user and not the capabilities: they are read-only, too.
"""

from __future__ import annotations

import os

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs.mount_targets import Tree
from pumice.engines.local.sandbox.sandbox_errors import DEVICE

_NODES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_MASKED_FILES = ("kcore", "keys", "timer_list", "kmsg", "latency_stats", "sched_debug", "kallsyms", "kpagecount")
_MASKED_DIRECTORIES = ("/proc/acpi", "/proc/scsi", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the container's own
_QUIET = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


class KernelFileSystems:
    """Made before the change of root, because the device files come from the host; mounted after it."""

    def __init__(self, devices: tuple[str, ...], *, all_users: bool) -> None:
        self._all_users = all_users
        standard = [f"/dev/{name}" for name in _NODES if os.path.exists(f"/dev/{name}")]
        self._devices = [Tree(path, path, read_only=True, kind=DEVICE) for path in (*standard, *devices)]
        # Taken in case that new ones are refused: inside of a container whose /proc is partly covered, they are.
        self._outer_proc = Tree("/proc", "/proc")
        self._outer_sys = Tree("/sys", "/sys", read_only=True)

    def mount(self) -> None:
        self._mount_dev()
        self._mount_proc()
        self._mount_sys()
        if self._all_users:
            _protect_machine()

    def _mount_dev(self) -> None:
        os.makedirs("/dev", exist_ok=True)
        syscalls.mount("tmpfs", "/dev", "tmpfs", syscalls.MS_NOSUID, "mode=755,size=1m")
        for device in self._devices:
            device.attach()
        for name, target in _LINKS.items():
            os.symlink(target, f"/dev/{name}")
        os.mkdir("/dev/pts")
        options = "newinstance,ptmxmode=0666,mode=0620" + (",gid=5" if self._all_users else "")
        syscalls.mount("devpts", "/dev/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, options)
        os.mkdir(_SHARED_MEMORY)
        syscalls.mount("tmpfs", _SHARED_MEMORY, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=1777")

    def _mount_proc(self) -> None:
        os.makedirs("/proc", exist_ok=True)
        try:
            syscalls.mount("proc", "/proc", "proc", _QUIET)
        except PermissionError:
            self._outer_proc.attach()

    def _mount_sys(self) -> None:
        os.makedirs("/sys", exist_ok=True)
        try:
            syscalls.mount("sysfs", "/sys", "sysfs", _QUIET | syscalls.MS_RDONLY)
        except OSError:
            self._outer_sys.attach()


def _protect_machine() -> None:
    for name in _READ_ONLY:
        if os.path.exists(f"/proc/{name}"):
            Tree(f"/proc/{name}", f"/proc/{name}", read_only=True).attach()
    for name in _MASKED_FILES:
        if os.path.exists(f"/proc/{name}"):
            Tree("/dev/null", f"/proc/{name}", read_only=True).attach()
    for path in _MASKED_DIRECTORIES:
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", _QUIET | syscalls.MS_RDONLY, "size=4k")
