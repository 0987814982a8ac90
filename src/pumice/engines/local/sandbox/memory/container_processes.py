"""Finds the processes of containers by pid namespace, which no process leaves, whatever other namespaces it makes.

Containers that share a pid namespace are distinguished by mount namespace. A process in a mount namespace of its own
belongs to the container of its parent, or to the one whose root directory it has.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Callable, Collection
from typing import NamedTuple

from pumice.engines.local.sandbox import kernel_files
from pumice.engines.local.sandbox.memory import process_memory

_NS_GET_PARENT = 0xB702
# Instead of the inode of a namespace: of a program that the user may execute, but not read.
_UNREADABLE = -1


class Identity(NamedTuple):
    """A container, by its first process, the inodes of its namespaces and the device of its root directory.

    Namespaces of a program that the user may not read are not known, except for the pid namespace.
    """

    pod: str
    first: int
    pids: int
    mounts: int
    root: int = 0
    joined: bool = False  # its pid namespace is that of another container, which only holds it


class Found(NamedTuple):
    """The processes of each container, and by pid namespace those that belong to one of several containers."""

    own: dict[Identity, list[int]]
    unclear: dict[int, list[int]]

    def processes(self, identity: Identity) -> list[int]:
        """Return all processes that may belong to a container."""
        return [*self.own.get(identity, ()), *self.unclear.get(identity.pids, ())]


def identify(pod: str, first: int, pids: int, *, joined: bool = False) -> Identity | None:
    """Return None if the first process has ended."""
    mounts = namespace(first, "mnt")
    return Identity(pod, first, pids, mounts, _root(first), joined) if mounts else None


def namespace(pid: int, kind: str) -> int:
    """Return the inode of a namespace; 0 if the process has ended."""
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except PermissionError:
        return _UNREADABLE
    except OSError:
        return 0


def own_number(pid: int) -> int:
    """Return the pid that a process of /proc, which may be that of an outer namespace, has for this process."""
    try:
        level = len(_numbers("self"))
        return _numbers(str(pid))[level - 1]
    except (OSError, IndexError) as error:
        raise ProcessLookupError(f"{pid}: has ended") from error


def _numbers(process: str) -> list[int]:
    """Return the pids of a process in all namespaces from that of /proc on."""
    lines = kernel_files.read_lines(f"/proc/{process}/status")
    return [int(word) for line in lines if line.startswith("NSpid:") for word in line.split()[1:]]


class ContainerProcesses:
    """All running containers: a process is known as that of another one only if that one is known.

    `ignored` returns processes of no container, although they are in its namespaces.
    """

    def __init__(self, ignored: Callable[[], Collection[int]] = frozenset) -> None:
        self._ignored = ignored
        self._pods: dict[str, list[Identity]] = {}

    def add(self, identity: Identity) -> None:
        self._pods.setdefault(identity.pod, []).append(identity)

    def remove(self, identity: Identity) -> None:
        self._pods[identity.pod].remove(identity)
        if not self._pods[identity.pod]:
            del self._pods[identity.pod]

    def pod(self, name: str) -> list[Identity]:
        return self._pods.get(name, [])

    def find(self) -> Found:
        containers: dict[int, list[Identity]] = {}
        owners: dict[int, Identity] = {}
        for identity in itertools.chain.from_iterable(self._pods.values()):
            containers.setdefault(identity.pids, []).append(identity)
            owners[identity.first] = identity
        doubtful: dict[int, list[Identity]] = {}
        ignored = self._ignored()
        for name in os.listdir("/proc"):
            if not name.isdigit() or (pid := int(name)) in owners or pid in ignored:
                continue
            pids = namespace(pid, "pid")
            if pids not in containers:
                # A nested one, or none of a container; remembered for other processes in it.
                containers[pids] = _enclosing(pid, containers) if pids not in (0, _UNREADABLE) else []
            if len(containers[pids]) == 1:
                owners[pid] = containers[pids][0]
            elif containers[pids] or pids == _UNREADABLE:
                doubtful[pid] = containers[pids]
        unclear = _attribute(doubtful, owners, containers) if doubtful else {}
        own: dict[Identity, list[int]] = {}
        for pid, identity in owners.items():
            own.setdefault(identity, []).append(pid)
        return Found(own, unclear)


def _attribute(
    doubtful: dict[int, list[Identity]], owners: dict[int, Identity], containers: dict[int, list[Identity]]
) -> dict[int, list[int]]:
    """Find the owners of processes of which several containers may be; return the others, by pid namespace."""
    for pid, candidates in doubtful.items():
        mounts = namespace(pid, "mnt") or namespace(process_memory.live_thread(pid), "mnt")
        for each in candidates:
            if each.mounts == mounts:
                owners[pid] = each
    unclear: dict[int, list[int]] = {}
    for pid, candidates in doubtful.items():
        if pid in owners:
            continue
        ancestor = _ancestor(pid, owners)
        several = candidates or (containers[ancestor.pids] if ancestor is not None else [])
        alike = [each for each in several if each.joined and each.root == _root(pid)]
        if ancestor is not None and (ancestor.joined or len(several) == 1):
            owners[pid] = ancestor
        elif len(alike) == 1:
            owners[pid] = alike[0]
        elif several:
            # The ancestor, if any, holds the namespace and adopts the orphans of all containers in it.
            unclear.setdefault(several[0].pids, []).append(pid)
    return unclear


def _enclosing(pid: int, containers: dict[int, list[Identity]]) -> list[Identity]:
    """Return the containers of the nearest pid namespace around that of a process which has any."""
    opened: list[int] = []
    try:
        opened.append(os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC))
        while True:
            # Refused with EPERM at job-init's own namespace.
            opened.append(fcntl.ioctl(opened[-1], _NS_GET_PARENT))
            found = containers.get(os.fstat(opened[-1]).st_ino)
            if found is not None:
                return found
    except OSError:
        return []
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _ancestor(pid: int, owners: dict[int, Identity]) -> Identity | None:
    """Return the container of the nearest ancestor that has one."""
    while pid > 1:
        if pid in owners:
            return owners[pid]
        status = process_memory.read_status(pid)
        pid = 0 if status is None else status.parent
    return None


def _root(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/root").st_dev
    except OSError:
        return 0
