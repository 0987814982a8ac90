"""Memory of a pod that the status of no process shows: of sockets, System V IPC, open files and nested namespaces.

The containers of a pod share its network and IPC namespaces. Each is charged for all that is in them, except for what
another container has: sockets by their descriptors, segments by their creator.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.memory.container_processes import Identity, namespace
from pumice.engines.local.sandbox.memory.descriptor_memory import memory_device, read_descriptors
from pumice.engines.local.sandbox.memory.memory_files import nested_tmpfs, tmpfs_mounts
from pumice.engines.local.sandbox.memory.namespace_memory import IpcObject, NamespaceMemory

# Enters namespaces, given by descriptors and their flags, for as long as the context lasts.
Enter = Callable[[Sequence[tuple[int, int]]], AbstractContextManager[None]]
Processes = Mapping[Identity, Sequence[int]]


class Hidden(NamedTuple):
    size: int = 0
    memfds: frozenset[int] = frozenset()  # whose size is included


class PodMemory:
    def __init__(self, enter: Enter, namespaces: Sequence[tuple[int, int]]) -> None:
        self._enter = enter
        self._user = namespace(os.getpid(), "user")
        self._device = memory_device()
        with enter(namespaces):
            self._shared = NamespaceMemory()

    def close(self) -> None:
        self._shared.close()

    def ipc(self, identity: Identity, processes: Processes) -> list[IpcObject]:
        """Return the objects that a container is charged for. `processes` are those of all containers of the pod."""
        objects = self._shared.ipc()
        others = {pid for other, pids in processes.items() if other != identity for pid in pids}
        return [each for each in objects if each.creator not in others]

    def sockets(self) -> dict[int, int]:
        return self._shared.sockets()

    def hidden(self, identity: Identity, processes: Processes, sockets: Mapping[int, int]) -> Hidden:
        """Return what a container is charged for, `sockets` being all of the pod."""
        tables = {each: read_descriptors(pids, self._device) for each, pids in processes.items()}
        own = tables[identity]
        others = set[int]().union(*(table.sockets for table in tables.values())) - own.sockets
        size = own.size + sum(size for inode, size in sockets.items() if inode not in others)
        return Hidden(size, frozenset(own.memfds))

    def nested(self, pids: Sequence[int], devices: Collection[int]) -> int:
        """Return what processes have in mount, network and IPC namespaces that they made in user namespaces.

        `devices` are those of the tmpfs that the container has anyway.
        """
        total, files, seen = 0, dict[int, int](), set(self._shared.namespaces)
        for pid in pids:
            if namespace(pid, "user") in (self._user, 0):
                continue
            mounts, network, ipc = (namespace(pid, kind) for kind in ("mnt", "net", "ipc"))
            if mounts not in seen:
                # What this process sees is that of the machine, or a volume.
                files |= nested_tmpfs(pid, {*devices, *tmpfs_mounts(os.getpid())})
            with contextlib.suppress(OSError):
                total += self._nested_namespaces(pid, new_network=network not in seen, new_ipc=ipc not in seen)
            seen |= {mounts, network, ipc}
        return total + sum(files.values())

    def _nested_namespaces(self, pid: int, *, new_network: bool, new_ipc: bool) -> int:
        flags = (syscalls.NEWNET if new_network else 0) | (syscalls.NEWIPC if new_ipc else 0)
        if not flags:
            return 0
        process = os.pidfd_open(pid)
        try:
            with self._enter([(process, flags)]):
                memory = NamespaceMemory()
        finally:
            os.close(process)
        try:
            sockets = sum(memory.sockets().values()) if new_network else 0
            return sockets + (sum(each.size for each in memory.ipc()) if new_ipc else 0)
        finally:
            memory.close()
