"""The users of a job: all users of this machine if root runs it, else one, who is root inside and the caller outside.

Root gets a user namespace as well. Its capabilities then apply to the job's resources only.
"""

from __future__ import annotations

import errno
import os

from pumice.engines.local.sandbox import kernel_files, syscalls


def enter_user_namespace() -> bool:
    """True if every user of this machine exists inside, False if only one does."""
    maps = {name: kernel_files.read(f"/proc/self/{name}") for name in ("uid_map", "gid_map")}
    if os.geteuid() == 0 and has_many(maps["uid_map"]) and kernel_files.read("/proc/self/setgroups").strip() != "deny":
        _enter_with_all_users({name: identity(content) for name, content in maps.items()})
        return True
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.NEWUSER)
    # Without it, the kernel refuses a group map from an ordinary user.
    kernel_files.write("/proc/self/setgroups", "deny")
    kernel_files.write("/proc/self/uid_map", f"0 {user} 1")
    kernel_files.write("/proc/self/gid_map", f"0 {group} 1")
    return False


def has_many(id_map: str) -> bool:
    """False for root of a user namespace with a single user, as in some containers."""
    return sum(int(line.split()[2]) for line in id_map.splitlines()) > 1


def identity(id_map: str) -> str:
    """The map that keeps every id of this namespace, given as in /proc/self/uid_map, in the next one."""
    extents = (line.split() for line in id_map.splitlines())
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in extents)


def _enter_with_all_users(maps: dict[str, str]) -> None:
    """A map of several ids must be written from outside: by a child that was forked before."""
    ready_read, ready_write = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ready_write)
            if os.read(ready_read, 1):
                for name, content in maps.items():
                    kernel_files.write(f"/proc/{parent}/{name}", content)
                code = 0
        finally:
            os._exit(code)
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
