"""Restricts a container once its root is built: a filter, few capabilities, the limits of the caller, one user.

The capabilities apply inside the job's user namespace only. SYS_ADMIN is not among them, because it could make
read-only mounts writable again.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from typing import NamedTuple

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import seccomp
from pumice.engines.local.sandbox.sandbox_errors import CPU, USER, StartError
from pumice.engines.local.sandbox.specs import CAPABILITIES, WAKE_ALARM, ContainerSpec

_SETFCAP = 31
_GRANTABLE = frozenset(CAPABILITIES.values()) | {WAKE_ALARM}


class Limits(NamedTuple):
    """What the containers of a job have in common.

    `filters` are those of confined and of unconfined containers, made once for the job.
    """

    open_files: tuple[int, int]  # of the engine's process, which containers get back
    last_capability: int  # that the kernel knows
    filters: Mapping[bool, bytes]
    mapped: bool  # root of a container has an unused id on this machine
    nested: bool  # containers may make user namespaces


def limit_processes(number: int) -> None:
    """The kernel counts the processes of a user in a user namespace, which is that of the whole job."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = number if hard == resource.RLIM_INFINITY else min(number, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _kept(spec: ContainerSpec, limits: Limits, *, all_users: bool) -> frozenset[int]:
    no_file_capabilities = all_users and spec.confined and not limits.nested
    return frozenset(spec.capabilities) - ({_SETFCAP} if no_file_capabilities else set())


def drop_ungrantable(last_capability: int) -> None:
    """Take from all programs that descend from this process what no container gets; this process keeps what it has."""
    for capability in set(range(last_capability + 1)) - _GRANTABLE:
        syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)


def restrict(spec: ContainerSpec, limits: Limits, *, all_users: bool) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, limits.open_files)
    if spec.cpus:
        try:
            os.sched_setaffinity(0, spec.cpus)
        except (OSError, ValueError) as error:
            listed = ", ".join(map(str, spec.cpus))
            raise StartError(CPU, f"cannot run on CPU {listed}: {error}") from error
    # What root of a container writes to a mount is a file of the machine's root, with the capabilities that it gets.
    # Namespaces within the container need SETFCAP, so there no attribute of a file can be set.
    seccomp.load(limits.filters[spec.confined])
    for capability in _GRANTABLE - _kept(spec, limits, all_users=all_users):
        if capability <= limits.last_capability:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
    if spec.confined or spec.no_new_privileges or (all_users and not limits.mapped):
        # Always where root of the container is root of the machine, whose set-id programs would have real power.
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    os.umask(0o022)
    if all_users:
        user, group = spec.uid or 0, spec.gid or 0
        try:
            os.setgroups(spec.groups)
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        except OSError as error:
            raise StartError(USER, f"cannot run as user {user}, group {group}: {error.strerror}") from error


def drop_as_exec_does(spec: ContainerSpec, limits: Limits, *, all_users: bool) -> None:
    """Keep the capabilities that a program of the container's user would have; `restrict` limits those of programs."""
    kept = _kept(spec, limits, all_users=all_users) if os.getuid() == 0 else frozenset[int]()
    syscalls.set_capabilities(sum(1 << capability for capability in kept if capability <= limits.last_capability))
