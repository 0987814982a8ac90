"""Tries, one after the other, what a sandbox needs of the kernel, and prints how each went as JSON.

Runs in a process of its own: namespaces cannot be left again. A step that fails is told by the name of its error, as
ENOSYS; those after it are missing where they could not be tried.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import cgroups, idmap
from pumice.engines.local.sandbox.net.job_network import Switch

OPTIONAL = frozenset({"proc", "overlay"})


def main() -> None:
    """The one argument is an empty directory to mount things on; nothing of it is left mounted."""
    place = sys.argv[1]
    outcome: dict[str, object] = {"limits": sorted(cgroups.available(os.getppid()))}
    steps: list[tuple[str, Callable[[], object]]] = [
        ("pidfd", lambda: os.close(os.pidfd_open(os.getpid()))),
        ("user", idmap.enter_user_namespace),
        ("namespaces", _namespaces),
        ("tmpfs", lambda: syscalls.mount("tmpfs", place, "tmpfs")),
        ("trees", lambda: _trees(place)),
        ("overlay", lambda: _overlay(place)),
        ("network", _network),
        ("proc", _proc),
    ]
    tried: dict[str, str] = {}
    outcome["tried"] = tried
    for name, step in steps:
        tried[name] = _try(step)
        if tried[name] and name not in OPTIONAL:
            break
    json.dump(outcome, sys.stdout)


def _try(step: Callable[[], object]) -> str:
    try:
        step()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "EIO")
    return ""


def _namespaces() -> None:
    syscalls.unshare(syscalls.NEWNS | syscalls.NEWNET | syscalls.NEWPID | syscalls.NEWIPC | syscalls.NEWUTS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)


def _trees(place: str) -> None:
    tree = syscalls.clone_tree(place)
    syscalls.make_read_only(tree)
    os.close(tree)


def _overlay(place: str) -> None:
    for name in ("upper", "work", "merged"):
        os.mkdir(f"{place}/{name}")
    options = f"lowerdir=/etc,upperdir={place}/upper,workdir={place}/work,userxattr"
    syscalls.mount("overlay", f"{place}/merged", "overlay", 0, options)


def _network() -> None:
    switch = Switch("10.77.0.1")
    switch.remove(switch.add("10.77.0.2", "probe"))


def _proc() -> None:
    """In the new pid namespace, which only a child is in."""
    child = os.fork()
    if child == 0:
        refused = _try(lambda: syscalls.mount("proc", "/proc", "proc"))
        os._exit(1 if refused else 0)
    _, status = os.waitpid(child, 0)
    if status:
        raise PermissionError(errno.EPERM, "a new /proc is refused")
