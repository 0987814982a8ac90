"""What this machine has for pods: processors, memory that is available, GPUs.

What a container or a session around us may use counts, not what the hardware has: affinity, the limits of our control
groups and CUDA_VISIBLE_DEVICES are all respected.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pumice.engines.local.capacity import GPU
from pumice.model.quantity import Format, Quantity
from pumice.model.resources import Usage

_NANO: Final = 10**9
_ASKING: Final = 10  # seconds for nvidia-smi, which is slow where a driver has to wake up
# Version 1 of control groups says "no limit" with a number near 2**63.
_NO_LIMIT: Final = 2**60


@dataclass(frozen=True, slots=True)
class Machine:
    cpus: tuple[int, ...]
    cpu_share: float  # how many processors we may keep busy, possibly a fraction
    memory: int  # bytes that can be had without swapping
    gpus: tuple[str, ...] = ()

    def free(self) -> Usage:
        return {
            "cpu": Quantity(round(self.cpu_share * _NANO)),
            "memory": Quantity(self.memory * _NANO, Format.BINARY_SI),
            GPU: Quantity(len(self.gpus) * _NANO),
        }


def read_machine(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Machine:
    cpus = _affinity()
    limits = list(_control_groups(root))
    shares = [share for share in (_cpu_share(group) for group in limits) if share is not None]
    spare = [memory for memory in (_memory_left(group) for group in limits) if memory is not None]
    available = _available_memory(root / "proc/meminfo")
    return Machine(cpus, min([len(cpus), *shares]), min([available, *spare]), read_gpus(root, environ))


def read_gpus(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The GPUs that CUDA would show to a program started now, by the names that it takes."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not visible.strip():
        return ()
    count = _gpu_count(root)
    if visible is None:
        return tuple(str(number) for number in range(count))
    return tuple(_visible(visible, count))


def gpu_devices(root: Path = Path("/")) -> tuple[str, ...]:
    """The device files that a program with a GPU needs."""
    found = [*(root / "dev").glob("nvidia*"), *(root / "dev/nvidia-caps").glob("*"), *(root / "dev").glob("dxg")]
    return tuple(sorted(f"/{path.relative_to(root)}" for path in found if not path.is_dir()))


def _visible(text: str, count: int) -> Iterator[str]:
    for word in map(str.strip, text.split(",")):
        # CUDA stops at the first name that it does not know.
        if not word.startswith(("GPU-", "MIG-")) and not (word.isdigit() and int(word) < count):
            return
        yield word


def _gpu_count(root: Path) -> int:
    listed = list((root / "proc/driver/nvidia/gpus").glob("*/information"))
    files = [path for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia[0-9]+", path.name)]
    return len(listed) or len(files) or _asked_gpu_count(root)


def _asked_gpu_count(root: Path) -> int:
    """Where the driver shows itself neither in /proc nor in /dev, as under WSL."""
    program = shutil.which("nvidia-smi")
    if program is None or not (root / "dev/dxg").exists():
        return 0
    try:
        answer = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=_ASKING, check=False)  # noqa: S603 - the user's own program, no shell
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in answer.stdout.splitlines())


def _affinity() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _available_memory(meminfo: Path) -> int:
    try:
        found = re.search(r"^MemAvailable:\s+([0-9]+) kB$", meminfo.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_groups(root: Path) -> Iterator[Path]:
    """The directories of the control groups that we are in, from our own up to the outermost that is visible."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(",") if controllers else [""]:
            top = root / "sys/fs/cgroup" / name
            # Within a container the path may be one of the outside, which is not to be seen; the top then is ours.
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


def _memory_left(group: Path) -> int | None:
    """What the group may still take: its limit less its use, but files that are only cached do not count as used."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        match [*_words(group / limit), *_words(group / used)]:
            case [most, now] if most.isdigit() and now.isdigit() and int(most) < _NO_LIMIT:
                return max(0, int(most) - int(now) + _cached(group))
    return None


def _cached(group: Path) -> int:
    words = _words(group / "memory.stat")
    figures = dict(zip(words[::2], words[1::2], strict=False))
    cached = figures.get("total_inactive_file") or figures.get("inactive_file") or "0"
    return int(cached) if cached.isdigit() else 0


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
