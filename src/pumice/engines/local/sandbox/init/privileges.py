"""Restricts a container once its root is built: few capabilities, the limits of the caller, one user.

The capabilities are those that container runtimes give, without MKNOD. They apply inside the job's user namespace
only. SYS_ADMIN is not among them, because it could make read-only mounts writable again.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from dataclasses import dataclass

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.sandbox_errors import CPU, USER, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec

# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT,
# AUDIT_WRITE, SETFCAP
_KEPT = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31})
_AUDIT_ARCHITECTURE_AND_SETGROUPS = {"x86_64": (0xC000003E, 116), "aarch64": (0xC00000B7, 159)}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the engine's process, which containers get back, and the kernel's highest capability."""

    open_files: tuple[int, int]
    last_capability: int


def restrict(spec: ContainerSpec, limits: Limits, *, all_users: bool) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, limits.open_files)
    if spec.cpus:
        try:
            os.sched_setaffinity(0, spec.cpus)
        except (OSError, ValueError) as error:
            listed = ", ".join(map(str, spec.cpus))
            raise StartError(CPU, f"cannot run on CPU {listed}: {error}") from error
    if not all_users:
        _ignore_setgroups()
    for capability in range(limits.last_capability + 1):
        if capability not in _KEPT:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
    os.umask(0o022)
    if all_users:
        user, group = spec.uid or 0, spec.gid or 0
        try:
            os.setgroups(spec.groups)
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        except OSError as error:
            raise StartError(USER, f"cannot run as user {user}, group {group}: {error.strerror}") from error


def _ignore_setgroups() -> None:
    """Let setgroups() succeed without effect.

    Where only one user is mapped the kernel refuses it, and sshd and every program that calls initgroups() gives up.
    There are no groups to drop, so success is a correct answer. The seccomp filter returns errno 0 for this call on
    this architecture, and allows all others.
    """
    known = _AUDIT_ARCHITECTURE_AND_SETGROUPS.get(os.uname().machine)
    if known is None:
        return
    architecture, number = known
    load, equal, give = 0x20, 0x15, 0x06
    allow, errno_zero = 0x7FFF0000, 0x00050000
    program = [
        (load, 0, 0, 4),
        (equal, 0, 3, architecture),
        (load, 0, 0, 0),
        (equal, 0, 1, number),
        (give, 0, 0, errno_zero),
        (give, 0, 0, allow),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    mode_filter = 2
    syscalls.prctl(syscalls.PR_SET_SECCOMP, mode_filter, ctypes.addressof(described))
