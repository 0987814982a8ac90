"""The users of a job: all, mapped to unused ids, if root runs it; else one, who is the caller outside.

Mapped ids need mounts that map them back; where the kernel or a file system has none, the users of a job of root are
those of this machine. Capabilities apply to the job's own resources in either case.
"""

from __future__ import annotations

import contextlib
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


# Ids from 2^31 on are those of no account: many programs take them for negative numbers.
_FIRST_UNUSED = 1 << 31
_UNUSED = (1 << 31) - 2


def can_map(id_map: str) -> bool:
    """Whether the unused ids exist in this namespace, which is that of the machine or one with all of its ids."""
    extents = (map(int, line.split()) for line in id_map.splitlines())
    return any(first <= _FIRST_UNUSED and first + count >= _FIRST_UNUSED + _UNUSED for first, _, count in extents)


def mapped_namespace() -> int | None:
    """Return the descriptor of a new user namespace of ids that no user of this machine has; None if root may not."""
    maps = ("uid_map", "gid_map")
    if os.geteuid() != 0 or not all(can_map(kernel_files.read(f"/proc/self/{name}")) for name in maps):
        return None
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(done_write)
            syscalls.unshare(syscalls.NEWUSER)
            os.write(ready_write, b".")
            os.read(done_read, 1)
        finally:
            os._exit(0)
    os.close(ready_write)
    try:
        if not os.read(ready_read, 1):
            return None
        for name in maps:
            kernel_files.write(f"/proc/{child}/{name}", f"0 {_FIRST_UNUSED} {_UNUSED}")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Capabilities were dropped.
        return None
    finally:
        for descriptor in (ready_read, done_read, done_write):
            os.close(descriptor)
        os.waitpid(child, 0)


def join(namespace: int) -> None:
    """Become root of a user namespace."""
    syscalls.setns(namespace, syscalls.NEWUSER)
    with contextlib.suppress(PermissionError):
        # Refused where there is only one group.
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    # A change of user hides /proc/self.
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)


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
