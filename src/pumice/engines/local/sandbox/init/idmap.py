"""Which users there are inside: all that there are here, as root; else one, who is root inside and the caller outside.

A user namespace is made as root too. Its capabilities then count for what belongs to the job and for nothing else.
"""

from __future__ import annotations

import errno
import os

from pumice.engines.local.sandbox import syscalls


def enter_user_namespace() -> bool:
    """True if every user of this machine exists inside, False if only one does."""
    maps = {name: _read(f"/proc/self/{name}") for name in ("uid_map", "gid_map")}
    if os.geteuid() == 0 and has_many(maps["uid_map"]) and _read("/proc/self/setgroups").strip() != "deny":
        _enter_with_all({name: identity(content) for name, content in maps.items()})
        return True
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.NEWUSER)
    # The kernel takes a map of groups from an ordinary user only if it is sure that no group can be dropped.
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {user} 1")
    _write("/proc/self/gid_map", f"0 {group} 1")
    return False


def has_many(map_here: str) -> bool:
    """Root of a user namespace, as some containers have it, may be its only user."""
    return sum(int(line.split()[2]) for line in map_here.splitlines()) > 1


def identity(map_here: str) -> str:
    """The map that gives every id of this namespace the same number in the next, from /proc/self/uid_map."""
    extents = (line.split() for line in map_here.splitlines())
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in extents)


def _enter_with_all(maps: dict[str, str]) -> None:
    """Maps of several ids must be written from outside: by a child that was forked before."""
    ready_read, ready_write = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(ready_write)
        _write_maps(parent, maps, ready_read)
    os.close(ready_read)
    try:
        syscalls.unshare(syscalls.NEWUSER)
        os.write(ready_write, b".")
    finally:
        os.close(ready_write)
        _, status = os.waitpid(child, 0)
    if status:
        raise PermissionError(errno.EPERM, "root may not map users: CAP_SETUID and CAP_SETGID are missing")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    os.setgroups([])


def _write_maps(parent: int, maps: dict[str, str], ready: int) -> None:
    code = 1
    try:
        if os.read(ready, 1):
            for name, content in maps.items():
                _write(f"/proc/{parent}/{name}", content)
            code = 0
    finally:
        os._exit(code)


def _write(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
