"""Reads what this machine offers to pods: CPUs, available memory, GPUs, and the programs that compute on them.

What this process may use counts, not what the hardware has: CPU affinity, limits of control groups and
CUDA_VISIBLE_DEVICES are respected.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.model.quantity import Format, Quantity
from pumice.model.resources import GPU, Usage

_NANO: Final = 10**9
_NVIDIA_SMI_TIMEOUT: Final = 10  # it is slow while the driver wakes up
# In version 1 of control groups a number near 2**63 means no limit.
_NO_LIMIT: Final = 2**60


class Machine(Struct, frozen=True):
    cpus: tuple[int, ...]
    cpu_share: float  # how many CPUs this process may keep busy, possibly a fraction
    memory: int  # bytes available without swapping
    gpus: tuple[str, ...] = ()
    all_memory: int | None = None  # bytes, including those in use; None if unknown
    gpu_programs: Mapping[str, str] = field(default_factory=dict)  # what computes on a GPU, by the GPU's id

    def capacity(self) -> Usage:
        """Return what pods could have if nothing else ran."""
        return replace(self, memory=self.memory if self.all_memory is None else self.all_memory).free()

    def free(self, reserved: Mapping[str, Quantity] | None = None) -> Usage:
        """Return what is free for pods, less what other runs have reserved.

        Available memory already lacks what those runs use, so their reservations are not subtracted from it. Total
        memory minus reservations is a second bound, and the lower one applies.
        """
        taken = reserved or {}
        free = {"cpu": Quantity(round(self.cpu_share * _NANO)), GPU: Quantity(len(self.gpus) * _NANO)}
        left = {name: max(amount - taken.get(name, Quantity()), Quantity()) for name, amount in free.items()}
        left["memory"] = _memory(self.memory)
        if self.all_memory is not None:
            bound = max(_memory(self.all_memory) - taken.get("memory", Quantity()), Quantity())
            left["memory"] = min(left["memory"], bound)
        return left


def read_machine(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Machine:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cpus = tuple(sorted(allowed))
    groups = list(_control_groups(root))
    shares = [share for share in map(_cpu_share, groups) if share is not None]
    bounds = {group: limit for group in groups if (limit := _memory_limit(group)) is not None}
    spare = [left for group, limit in bounds.items() if (left := _memory_left(group, limit)) is not None]
    meminfo = root / "proc/meminfo"
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = _meminfo(meminfo, "MemAvailable") or physical
    everything = _meminfo(meminfo, "MemTotal") or physical
    return Machine(
        cpus=cpus,
        cpu_share=min([len(cpus), *shares]),
        memory=min([available, *spare]),
        gpus=read_gpus(root, environ),
        all_memory=min([everything, *bounds.values()]),
    )


def read_gpus(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the ids of the GPUs that CUDA would show to a program started now."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not visible.strip():
        return ()
    listed = list((root / "proc/driver/nvidia/gpus").glob("*/information"))
    files = [path for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia[0-9]+", path.name)]
    count = len(listed) or len(files)
    if not count and (answer := _nvidia_smi(environ, "-L")) is not None:
        # The driver is neither in /proc nor in /dev, as under WSL.
        count = sum(line.startswith("GPU ") for line in answer.stdout.splitlines())
    if visible is None:
        return tuple(str(number) for number in range(count))
    found = []
    for word in map(str.strip, visible.split(",")):
        # CUDA stops at the first unknown id.
        if not word.startswith(("GPU-", "MIG-")) and not (word.isdigit() and int(word) < count):
            break
        found.append(word)
    return tuple(found)


def read_gpu_programs(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what computes on each busy GPU (`python3 (pid 42)`), both by its index and by its UUID."""

    def rows(query: str, columns: int) -> list[tuple[str, ...]]:
        answer = _nvidia_smi(environ, query, "--format=csv,noheader")
        lines = answer.stdout.splitlines() if answer is not None and answer.returncode == 0 else []
        cells = (tuple(cell.strip() for cell in line.split(",", columns - 1)) for line in lines)
        return [row for row in cells if len(row) == columns]

    indexes = {uuid: index for index, uuid in rows("--query-gpu=index,uuid", 2)}
    found: dict[str, str] = {}
    for uuid, pid, program in rows("--query-compute-apps=gpu_uuid,pid,process_name", 3):
        text = f"{PurePath(program).name} (pid {pid})"
        for name in filter(None, (uuid, indexes.get(uuid))):
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _nvidia_smi(environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str] | None:
    """Return the answer of nvidia-smi; None where there is none, or it hangs."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return None
    try:
        return subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, *words], capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def gpu_devices(root: Path = Path("/")) -> tuple[str, ...]:
    """Return the device files that a program with a GPU needs."""
    found = [*(root / "dev").glob("nvidia*"), *(root / "dev/nvidia-caps").glob("*"), *(root / "dev").glob("dxg")]
    return tuple(sorted(f"/{path.relative_to(root)}" for path in found if not path.is_dir()))


def _meminfo(meminfo: Path, name: str) -> int | None:
    """Return a value of /proc/meminfo in bytes; None if it is missing."""
    try:
        found = re.search(rf"^{name}:\s+([0-9]+) kB$", meminfo.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


def _memory(size: int) -> Quantity:
    return Quantity(size * _NANO, Format.BINARY_SI)


def _control_groups(root: Path) -> Iterator[Path]:
    """Yield the directories of our control groups, from our own up to the outermost visible one."""
    try:
        lines = (root / "proc/self/cgroup").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(",") if controllers else [""]:
            top = root / "sys/fs/cgroup" / name
            # In a container the path may be that of the host, which is not visible; then the top is our own.
            inner = top / path.strip("/")
            while inner != top:
                yield inner
                inner = inner.parent
            yield top


def _cpu_share(group: Path) -> float | None:
    words = _words(group / "cpu.max") or [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
    match words:
        case [quota, period] if quota.isdigit() and period.isdigit() and int(period):
            return int(quota) / int(period)
    return None


def _memory_limit(group: Path) -> int | None:
    match _words(group / "memory.max") or _words(group / "memory.limit_in_bytes"):
        case [most] if most.isdigit() and int(most) < _NO_LIMIT:
            return int(most)
    return None


def _memory_left(group: Path, limit: int) -> int | None:
    """Return what the group may still use: its limit minus its usage, without reclaimable file cache."""
    match _words(group / "memory.current") or _words(group / "memory.usage_in_bytes"):
        case [now] if now.isdigit():
            words = _words(group / "memory.stat")
            figures = dict(zip(words[::2], words[1::2], strict=False))
            cached = figures.get("total_inactive_file") or figures.get("inactive_file") or "0"
            return max(0, limit - int(now) + (int(cached) if cached.isdigit() else 0))
    return None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
