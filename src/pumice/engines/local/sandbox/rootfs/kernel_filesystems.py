"""/dev, /proc and /sys of a container: enough to work with, without access to the machine.

Device files are bound one by one and read-only: that permits writing to a device, but not changing the mode or owner
of the host's /dev/null. For /proc/sys and similar files the kernel checks the user and not the capabilities, so these
are read-only too. What tells of the machine's keys and memory is covered, unless no user of the job could read it.

What is the same for all containers of a job is found out, and bound with its restrictions, once: each container then
takes one call for it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs.mount_targets import HostMount

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
_MASKED_DIRECTORIES = ("/proc/acpi", "/proc/scsi", "/sys/firmware")
_MASKED_IN_OUTER_SYS = ("/sys/kernel/debug", "/sys/kernel/tracing")  # a new /sys has nothing there
_DATA_ONLY = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
_RESTRICTED = syscalls.READ_ONLY | syscalls.NO_SET_ID | syscalls.NO_DEVICES


class KernelFileSystems(NamedTuple):
    """What the containers of a job share, made by `prepare` in job-init. Paths are those of job-init."""

    empty: str  # a directory with nothing in it, read-only
    nothing: str  # a file, likewise
    nodes: dict[str, str]  # the standard devices, by their name in /dev
    read_only: tuple[str, ...]
    masked: dict[str, str]  # what covers a path
    all_users: bool

    def mount(self, root: str, shared_memory: str) -> None:
        """Mount them in a root that is not entered yet: the kernel permits new ones only where whole ones are visible.

        `shared_memory` is the directory that becomes /dev/shm.
        """
        for name in ("dev", "proc", "sys"):
            # Replace a link of the image, which could lead anywhere.
            if os.path.islink(f"{root}/{name}"):
                os.unlink(f"{root}/{name}")
            with suppress(FileExistsError):
                os.mkdir(f"{root}/{name}")
        # The kernel refuses new ones inside of a container that covers parts of /proc.
        try:
            syscalls.mount("proc", f"{root}/proc", "proc", _DATA_ONLY)
        except PermissionError:
            HostMount(("/proc", ""), "/proc").attach_at(f"{root}/proc")
        outer_sys: tuple[str, ...] = ()
        try:
            syscalls.mount("sysfs", f"{root}/sys", "sysfs", _DATA_ONLY | syscalls.MS_RDONLY)
        except OSError:
            HostMount(("/sys", ""), "/sys", read_only=True).attach_at(f"{root}/sys")
            outer_sys = _MASKED_IN_OUTER_SYS
        for path in self.read_only:
            syscalls.bind_restricted(f"{root}{path}", f"{root}{path}", _RESTRICTED)
        for path, cover in self.masked.items():
            syscalls.bind(cover, f"{root}{path}")
        for path in filter(os.path.isdir, outer_sys):
            syscalls.bind(self.empty, f"{root}{path}")
        self._mount_dev(f"{root}/dev", shared_memory)

    def _mount_dev(self, dev: str, shared_memory: str) -> None:
        syscalls.mount("tmpfs", dev, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755,size=1m")
        for name, node in self.nodes.items():
            _make_file(f"{dev}/{name}", 0o644)
            syscalls.bind(node, f"{dev}/{name}")
        for name, target in _LINKS.items():
            os.symlink(target, f"{dev}/{name}")
        os.mkdir(f"{dev}/pts")
        options = "newinstance,ptmxmode=0666,mode=0620" + (",gid=5" if self.all_users else "")
        syscalls.mount("devpts", f"{dev}/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, options)
        os.mkdir(f"{dev}/shm")
        syscalls.bind(shared_memory, f"{dev}/shm")


def prepare(directory: str, *, all_users: bool) -> KernelFileSystems:
    """Prepare an empty directory, with /proc as job-init sees it."""
    empty, nothing = f"{directory}/empty", f"{directory}/nothing"
    os.mkdir(empty, 0o755)
    syscalls.bind_restricted(empty, empty, _RESTRICTED)
    _make_file(nothing, 0o444)
    syscalls.bind_restricted(nothing, nothing, _RESTRICTED)
    nodes = {name: f"{directory}/{name}" for name in _NODES if os.path.exists(f"/dev/{name}")}
    for name, node in nodes.items():
        _make_file(node, 0o644)
        syscalls.bind_restricted(f"/dev/{name}", node, syscalls.READ_ONLY | syscalls.NO_SET_ID)
    files = (f"/proc/{name}" for name in _MASKED_FILES)
    masked = {path: nothing for path in files if os.access(path, os.R_OK)}
    masked |= {path: empty for path in _MASKED_DIRECTORIES if os.path.isdir(path)}
    read_only = (f"/proc/{name}" for name in _READ_ONLY)
    written = tuple(path for path in read_only if os.path.isdir(path) or os.access(path, os.W_OK))
    return KernelFileSystems(empty, nothing, nodes, written, masked, all_users)


def _make_file(path: str, mode: int) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, mode))
