"""Tries what a sandbox needs from the kernel, step by step, and prints the outcome as JSON.

It runs in a process of its own because a process cannot leave a namespace. A step that fails is recorded with the name
of its errno; later steps are absent if they could not be tried.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import cgroups, idmap
from pumice.engines.local.sandbox.net.job_network import JobNetwork


def main() -> None:
    """The only argument is an empty directory to mount on; the mounts end with this process."""
    directory = sys.argv[1]
    limits = sorted(cgroups.available(os.getppid()))
    steps: list[tuple[str, Callable[[], object]]] = [
        ("pidfd", lambda: os.close(os.pidfd_open(os.getpid()))),
        ("user", idmap.enter_user_namespace),
        ("namespaces", _namespaces),
        ("tmpfs", lambda: syscalls.mount("tmpfs", directory, "tmpfs")),
        ("trees", lambda: _trees(directory)),
        ("overlay", lambda: _overlay(directory)),
        ("network", _network),
        ("proc", _proc),
    ]
    tried: dict[str, str] = {}
    for name, step in steps:
        tried[name] = _try(step)
        if tried[name] and name != "overlay":
            break
    json.dump({"tried": tried, "limits": limits}, sys.stdout)


def _try(step: Callable[[], object]) -> str:
    try:
        step()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "EIO")
    return ""


def _namespaces() -> None:
    syscalls.unshare(syscalls.NEWNS | syscalls.NEWNET | syscalls.NEWPID | syscalls.NEWIPC | syscalls.NEWUTS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)


def _trees(directory: str) -> None:
    tree = syscalls.clone_tree(directory)
    syscalls.restrict_mount(tree, syscalls.READ_ONLY)
    os.close(tree)


def _overlay(directory: str) -> None:
    for name in ("upper", "work", "merged"):
        os.mkdir(f"{directory}/{name}")
    syscalls.mount_overlay(["/etc"], f"{directory}/upper", f"{directory}/work", f"{directory}/merged")


def _network() -> None:
    network = JobNetwork("10.77.0.1")
    network.remove_pod(network.add_pod("10.77.0.2", "trial"))


def _proc() -> None:
    """Mount /proc in a child: only children are in the new pid namespace."""
    child = os.fork()
    if child == 0:
        os._exit(1 if _try(lambda: syscalls.mount("proc", "/proc", "proc")) else 0)
    _, status = os.waitpid(child, 0)
    if status:
        raise PermissionError(errno.EPERM, "mounting /proc is refused")
