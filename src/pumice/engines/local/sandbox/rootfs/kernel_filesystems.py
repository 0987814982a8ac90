"""/dev, /proc and /sys of a container: enough to work with, without access to the machine.

Device files are bound one by one and read-only: that permits writing to a device, but not changing the mode or owner
of the host's /dev/null. For /proc/sys and similar files the kernel checks the user and not the capabilities, so these
are read-only too. What tells of the machine's keys and memory is covered.
"""

from __future__ import annotations

import os
from contextlib import suppress

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs.mount_targets import HostMount
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
_MASKED_FILES = (
    *("kcore", "keys", "key-users", "timer_list", "kmsg", "latency_stats", "sched_debug", "kallsyms"),
    *("kpagecount", "kpageflags", "kpagecgroup", "pagetypeinfo", "slabinfo", "vmallocinfo"),
)
_MASKED_DIRECTORIES = ("/proc/acpi", "/proc/scsi", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the container's own
_DATA_ONLY = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


class KernelFileSystems:
    """Created before the change of root, because the device files come from the host; mounted after it."""

    def __init__(self, devices: tuple[str, ...], shared_memory: str, *, all_users: bool) -> None:
        """`shared_memory` is the directory that becomes /dev/shm."""
        self._all_users = all_users
        self._shared_memory = syscalls.clone_tree(shared_memory)
        standard = [f"/dev/{name}" for name in _NODES if os.path.exists(f"/dev/{name}")]
        self._standard, self._devices = (
            [HostMount((path, ""), path, read_only=True, kind=DEVICE) for path in paths]
            for paths in (standard, devices)
        )
        # The kernel refuses new ones inside of a container that covers parts of /proc.
        self._outer_proc = HostMount(("/proc", ""), "/proc")
        self._outer_sys = HostMount(("/sys", ""), "/sys", read_only=True)

    def mount(self) -> None:
        for directory in ("/dev", "/proc", "/sys"):
            # Replace a link of the image, which could lead anywhere.
            if os.path.islink(directory):
                os.unlink(directory)
            with suppress(FileExistsError):
                os.mkdir(directory)
        try:
            syscalls.mount("proc", "/proc", "proc", _DATA_ONLY)
        except PermissionError:
            self._outer_proc.attach_at("/proc")
        else:
            self._outer_proc.close()
        try:
            syscalls.mount("sysfs", "/sys", "sysfs", _DATA_ONLY | syscalls.MS_RDONLY)
        except OSError:
            self._outer_sys.attach_at("/sys")
        else:
            self._outer_sys.close()
        self._mount_dev()
        _protect_machine()

    def _mount_dev(self) -> None:
        syscalls.mount("tmpfs", "/dev", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755,size=1m")
        for device in self._standard:
            # In a directory that has just been made, there is nothing to look at.
            os.close(os.open(device.target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            device.attach_at(device.target)
        for device in self._devices:
            device.attach()
        for name, target in _LINKS.items():
            os.symlink(target, f"/dev/{name}")
        os.mkdir("/dev/pts")
        options = "newinstance,ptmxmode=0666,mode=0620" + (",gid=5" if self._all_users else "")
        syscalls.mount("devpts", "/dev/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, options)
        os.mkdir(_SHARED_MEMORY)
        syscalls.attach_tree(self._shared_memory, _SHARED_MEMORY)
        os.close(self._shared_memory)


def _protect_machine() -> None:
    sources = {f"/proc/{name}": f"/proc/{name}" for name in _READ_ONLY}
    sources |= {f"/proc/{name}": "/dev/null" for name in _MASKED_FILES}
    for path, source in sources.items():
        if os.path.exists(path):
            HostMount((source, ""), path, read_only=True).attach_at(path)
    for path in _MASKED_DIRECTORIES:
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", _DATA_ONLY | syscalls.MS_RDONLY, "size=4k")
