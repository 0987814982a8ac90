"""What containers use of CPUs and memory: from their control groups where these count it, else from their processes.

The CPU time of a process includes that of its children that have ended, so the sum over the processes of a container
does not fall while the container runs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pumice.engines.local.sandbox import kernel_files
from pumice.engines.local.sandbox.memory.container_processes import ContainerProcesses, Identity
from pumice.engines.local.sandbox.memory.process_memory import proportional, read_statuses, resident

_TICKS = os.sysconf("SC_CLK_TCK")
# Seconds for each reading of how much memory the processes of containers share; it takes longer the more they have.
# More for containers that are new.
_BUDGET = 0.01
_BUDGET_OF_NEW = 0.2


class Measured(NamedTuple):
    """A container: its processes, if their namespaces are known, and its control groups."""

    identity: Identity | None
    groups: tuple[str, ...] = ()


class UsageReader:
    def __init__(self, processes: ContainerProcesses) -> None:
        self._processes = processes
        self._memory = SharedMemory()

    def read(self, containers: Mapping[str, Measured]) -> dict[str, tuple[float, int]]:
        """Return CPU seconds and bytes of memory of each container."""
        counted = {name: (group_cpu(each.groups), group_memory(each.groups)) for name, each in containers.items()}
        found = self._processes.find().own if any(None in both for both in counted.values()) else {}
        pids = {name: found.get(each.identity, []) if each.identity else [] for name, each in containers.items()}
        memory = self._memory.read({name: pids[name] for name, (_, used) in counted.items() if used is None})
        return {
            name: (
                sum(map(cpu_seconds, pids[name])) if cpu is None else cpu,
                memory.get(name, 0) if used is None else used,
            )
            for name, (cpu, used) in counted.items()
        }


class SharedMemory:
    """The memory of groups of processes, of which what several share counts once.

    The resident size of a process is cheap to read. What it shares with others is not, so the ratio of both is kept,
    and as many ratios as the budget allows are read again each time, the oldest first.
    """

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}  # the oldest first

    def read(self, groups: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the bytes of each group: memory of its own and shared memory, not files."""
        statuses = {name: read_statuses(pids) for name, pids in groups.items()}
        sizes = {name: resident(found) for name, found in statuses.items()}
        several = [name for name, pids in groups.items() if len(pids) > 1 and sizes[name]]
        old = {name: ratio for name, ratio in self._ratios.items() if name in several}
        order = [*(name for name in several if name not in old), *old]
        begin = time.monotonic()
        read: dict[str, float] = {}
        for name in order:
            if read and time.monotonic() - begin >= (_BUDGET if name in old else _BUDGET_OF_NEW):
                break
            shared = proportional(statuses[name])
            read[name] = min(1.0, shared / sizes[name]) if shared else 1.0
        self._ratios = {**{name: ratio for name, ratio in old.items() if name not in read}, **read}
        return {name: int(size * self._ratios.get(name, 1.0)) for name, size in sizes.items()}


def cpu_seconds(pid: int) -> float:
    """0 if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may contain anything.
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / _TICKS


def group_cpu(directories: Sequence[str]) -> float | None:
    """The CPU time that a control group counts: in version 2 any, in version 1 one with the controller cpuacct."""
    for directory in directories:
        with contextlib.suppress(OSError, ValueError):
            counts = _counts(f"{directory}/cpu.stat")
            if "usage_usec" in counts:
                return counts["usage_usec"] / 1e6
        with contextlib.suppress(OSError, ValueError):
            return int(kernel_files.read(f"{directory}/cpuacct.usage")) / 1e9
    return None


def group_memory(directories: Sequence[str]) -> int | None:
    """The memory that a control group counts, without files that the kernel can drop, as `kubectl top` shows it."""
    for directory in directories:
        for used, dropped in (("memory.current", "inactive_file"), ("memory.usage_in_bytes", "total_inactive_file")):
            with contextlib.suppress(OSError, ValueError):
                amount = int(kernel_files.read(f"{directory}/{used}"))
                return max(0, amount - _counts(f"{directory}/memory.stat").get(dropped, 0))
    return None


def _counts(path: str) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in map(str.split, kernel_files.read_lines(path)) if len(words) > 1}
