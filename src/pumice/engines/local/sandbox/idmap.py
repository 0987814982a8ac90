"""Which users there are inside: all that there are here, as root; else one, who is root inside and the caller outside.

A user namespace is made as root too. Its capabilities then count for what belongs to the job and for nothing else.
"""

from __future__ import annotations

import os

from pumice.engines.local.sandbox import syscalls


def enter_user_namespace() -> bool:
    """True if every user of this machine exists inside, False if only one does."""
    if os.geteuid() == 0 and _enter_with_all():
        return True
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.NEWUSER)
    # The kernel takes a map of groups from an ordinary user only if it is sure that no group can be dropped.
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {user} 1")
    _write("/proc/self/gid_map", f"0 {group} 1")
    return False


def identity(map_here: str) -> str:
    """The map that gives every id of this namespace the same number in the next, from /proc/self/uid_map."""
    extents = (line.split() for line in map_here.splitlines())
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in extents)


def _enter_with_all() -> bool:
    """Maps of several ids must be written from outside: by a child that was forked before."""
    with open("/proc/self/uid_map") as users, open("/proc/self/gid_map") as groups:
        maps = {"uid_map": identity(users.read()), "gid_map": identity(groups.read())}
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
        raise PermissionError("root may not map users: CAP_SETUID and CAP_SETGID are missing")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    os.setgroups([])
    return True


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
