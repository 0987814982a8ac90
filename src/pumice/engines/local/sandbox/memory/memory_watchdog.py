"""Memory limits without control groups: polls all processes and reports the containers over their limit.

Polling is coarser than the kernel: a burst between two polls is missed. Each poll reads what is cheap: the resident
sizes of processes, files in memory (tmpfs) and System V IPC. Now and then it looks for memory that no process shows:
sockets, open files without a name (memfd), pipes, namespaces that processes make. Where the sum is above the limit,
proportional sizes decide: forked workers share pages, and what processes map of files is counted already.

Not seen: files without a name while one process sends them to another, shared memory that no process has in its page
tables, files in ramfs, most objects of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pumice.engines.local.sandbox import kernel_files
from pumice.engines.local.sandbox.memory import descriptor_memory, process_memory
from pumice.engines.local.sandbox.memory.container_processes import ContainerProcesses, Found, Identity
from pumice.engines.local.sandbox.memory.memory_files import tmpfs_size
from pumice.engines.local.sandbox.memory.namespace_memory import IpcObject
from pumice.engines.local.sandbox.memory.pod_memory import Hidden, PodMemory
from pumice.engines.local.sandbox.memory.process_memory import CountedFiles, Status, device_text

_MIN_INTERVAL = 0.1
_MIN_LOOK_INTERVAL = 0.4
# Reading hundreds of processes takes long; both intervals grow, so that each takes at most this share of the time.
_MAX_SHARE = 0.1
_MACHINE = re.compile(r"^(Shmem|SwapTotal|SwapFree):\s+(\d+) kB$", re.MULTILINE)
_NOTHING = Hidden()


class _Limit(NamedTuple):
    size: int
    file_systems: Sequence[str | int]
    devices: frozenset[int]


class _Seen(NamedTuple):
    """What a container has that is cheap to read."""

    processes: list[Status]
    files: int
    ipc: list[IpcObject]

    @property
    def size(self) -> int:
        return process_memory.resident(self.processes) + self.counted

    @property
    def counted(self) -> int:
        """The size of what is counted by itself, and not as memory of a process."""
        return self.files + sum(each.size for each in self.ipc)


class Watchdog:
    """`processes` has all containers of the pods that are watched; `open_pod` opens what is read of a pod."""

    def __init__(self, processes: ContainerProcesses, open_pod: Callable[[str], PodMemory]) -> None:
        self._processes = processes
        self._open_pod = open_pod
        self._limits: dict[Identity, _Limit] = {}
        self._pods: dict[str, PodMemory] = {}
        self._hidden: dict[Identity, Hidden] = {}
        self._device = device_text(descriptor_memory.memory_device())
        self._next = self._next_look = 0.0

    def watch(self, identity: Identity, limit: int, file_systems: Sequence[str | int]) -> None:
        """`file_systems` are a path in, or a descriptor of, each tmpfs of the container."""
        devices = frozenset((identity.root, *(os.stat(each).st_dev for each in file_systems)))
        self._limits[identity] = _Limit(limit, file_systems, devices)
        if identity.pod not in self._pods:
            self._pods[identity.pod] = self._open_pod(identity.pod)

    def forget(self, identity: Identity) -> None:
        self._limits.pop(identity, None)
        self._hidden.pop(identity, None)
        if identity.pod in self._pods and not any(other.pod == identity.pod for other in self._limits):
            self._pods.pop(identity.pod).close()

    def pause(self) -> float | None:
        """Seconds until the next poll; None if nothing is watched."""
        return max(0.0, self._next - time.monotonic()) if self._limits else None

    def poll(self) -> list[Identity]:
        """The containers over their limit; empty before it is time for the next poll."""
        started = time.monotonic()
        if not self._limits or started < self._next:
            return []
        found = self._processes.find()
        seen = {identity: self._see(identity, limit, found) for identity, limit in self._limits.items()}
        everywhere = started >= self._next_look
        pods = {
            identity.pod
            for identity, limit in self._limits.items()
            if everywhere or seen[identity].size + self._hidden.get(identity, _NOTHING).size > limit.size
        }
        read = time.monotonic()
        for pod in pods:
            with contextlib.suppress(OSError):
                # The kernel may be short of memory itself; then what is cheap to read must do.
                self._look(pod, found, seen)
        looked = time.monotonic()
        over = [
            identity for identity in self._limits if identity.pod in pods and self._is_over(identity, seen[identity])
        ]
        now = time.monotonic()
        if everywhere:
            self._next_look = now + max(_MIN_LOOK_INTERVAL, (looked - read) / _MAX_SHARE)
        took = now - started - (looked - read if everywhere else 0)
        self._next = now + max(_MIN_INTERVAL, took / _MAX_SHARE)
        return over

    def _see(self, identity: Identity, limit: _Limit, found: Found) -> _Seen:
        files = 0
        for each in limit.file_systems:
            with contextlib.suppress(OSError):
                files += tmpfs_size(each)
        statuses = process_memory.read_statuses(found.processes(identity))
        return _Seen(statuses, files, self._pods[identity.pod].ipc(identity, self._of_pod(identity.pod, found)))

    def _of_pod(self, pod: str, found: Found) -> dict[Identity, list[int]]:
        return {identity: found.processes(identity) for identity in self._processes.pod(pod)}

    def _look(self, pod: str, found: Found, seen: Mapping[Identity, _Seen]) -> None:
        """Look for hidden memory; at the descriptors only if there are enough files in memory, or pipes."""
        memory, processes = self._pods[pod], self._of_pod(pod, found)
        watched = {identity: seen[identity] for identity in processes if identity in seen}
        for identity, each in watched.items():
            processes[identity] = [status.pid for status in each.processes]
            self._hidden.pop(identity, None)
        sockets, files = memory.sockets(), _files_in_memory()
        for identity, each in watched.items():
            nested = memory.nested(processes[identity], self._limits[identity].devices)
            hidden = Hidden(sum(sockets.values()))
            pipes = descriptor_memory.most_in_pipes(sum(status.slots for status in each.processes))
            if each.size + hidden.size + nested + files + pipes > self._limits[identity].size:
                hidden = memory.hidden(identity, processes, sockets)
            self._hidden[identity] = Hidden(hidden.size + nested, hidden.memfds)

    def _is_over(self, identity: Identity, seen: _Seen) -> bool:
        limit, hidden = self._limits[identity], self._hidden.get(identity, _NOTHING)
        if seen.size + hidden.size <= limit.size:
            return False
        segments = {each.segment for each in seen.ipc if each.segment is not None}
        counted = CountedFiles(set(map(device_text, limit.devices)), self._device, hidden.memfds, segments)
        return process_memory.proportional(seen.processes, counted) + seen.counted + hidden.size > limit.size


def _files_in_memory() -> int:
    """Return the size that all files in memory of this machine have at most."""
    sizes = {name: int(size) << 10 for name, size in _MACHINE.findall(kernel_files.read("/proc/meminfo"))}
    return sizes.get("Shmem", 0) + sizes.get("SwapTotal", 0) - sizes.get("SwapFree", 0)
