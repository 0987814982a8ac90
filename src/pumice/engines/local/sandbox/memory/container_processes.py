"""Finds the processes of containers by pid namespace, which no process leaves, whatever other namespaces it makes.

Containers that share a pid namespace are distinguished by mount namespace. A process in a mount namespace of its own
belongs to the container of its parent, or to the one whose root directory it has.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from typing import NamedTuple

from pumice.engines.local.sandbox import kernel_files
from pumice.engines.local.sandbox.memory import process_memory

_NS_GET_PARENT = 0xB702


class Identity(NamedTuple):
    """What its processes have in common: inodes of namespaces, the device of the root directory."""

    pod: str
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


def identify(pid: int, pod: str, *, joined: bool = False) -> Identity | None:
    """Return None if the process has ended."""
    pids, mounts = namespace(pid, "pid"), namespace(pid, "mnt")
    return Identity(pod, pids, mounts, _root(pid), joined) if pids and mounts else None


def namespace(pid: int, kind: str) -> int:
    """Return the inode of a namespace; 0 if the process has ended, -1 if it may not be inspected."""
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except PermissionError:
        return -1
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
    """All running containers: a process is known as that of another one only if that one is known."""

    def __init__(self) -> None:
        self._known: dict[Identity, None] = {}

    def add(self, identity: Identity) -> None:
        self._known[identity] = None

    def remove(self, identity: Identity) -> None:
        self._known.pop(identity, None)

    def pod(self, name: str) -> list[Identity]:
        return [identity for identity in self._known if identity.pod == name]

    def find(self) -> Found:
        containers: dict[int, Sequence[Identity]] = {}
        for identity in self._known:
            containers[identity.pids] = [*containers.get(identity.pids, ()), identity]
        owners: dict[int, Identity] = {}
        doubtful: dict[int, Sequence[Identity]] = {}
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            pid = int(name)
            pids = namespace(pid, "pid")
            if pids not in containers:
                # Neither that of a container nor seen before; nested ones are remembered for the next processes.
                containers[pids] = _enclosing(pid, containers) if pids > 0 else ()
            candidates = containers[pids]
            if len(candidates) == 1:
                owners[pid] = candidates[0]
            elif candidates or pids < 0:
                doubtful[pid] = candidates
        return _attribute(owners, doubtful, self._known)


def _enclosing(pid: int, containers: dict[int, Sequence[Identity]]) -> Sequence[Identity]:
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
        return ()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _attribute(
    owners: dict[int, Identity], doubtful: dict[int, Sequence[Identity]], known: dict[Identity, None]
) -> Found:
    found = Found({}, {})
    by_mounts = {(identity.pids, identity.mounts): identity for identity in known}
    for pid, candidates in doubtful.items():
        if candidates:
            mounts = namespace(pid, "mnt") or namespace(process_memory.live_thread(pid), "mnt")
            identity = by_mounts.get((candidates[0].pids, mounts))
            if identity is not None:
                owners[pid] = identity
    for pid, candidates in doubtful.items():
        if pid not in owners:
            ancestor = _ancestor(pid, owners)
            if ancestor is not None and (not candidates or ancestor.joined):
                owners[pid] = ancestor
                continue
            root = _root(pid)
            alike = [each for each in candidates if each.root == root and each.joined]
            if len(alike) == 1:
                owners[pid] = alike[0]
            elif candidates:
                found.unclear.setdefault(candidates[0].pids, []).append(pid)
    for pid, identity in owners.items():
        found.own.setdefault(identity, []).append(pid)
    return found


def _ancestor(pid: int, owners: dict[int, Identity]) -> Identity | None:
    """Return the container of the nearest ancestor that has one. The holder of a namespace adopts all orphans in it."""
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
