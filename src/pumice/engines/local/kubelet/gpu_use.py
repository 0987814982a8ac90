"""Asks nvidia-smi how much of each GPU is in use."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

_QUERY: Final = ("--query-gpu=index,uuid,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
_PATIENCE: Final = 10.0  # seconds; it is slow while the driver wakes up
_COLUMNS: Final = 4


class GpuUse(Struct, frozen=True):
    """`percent` is None where the driver does not say it, as for a part of a GPU."""

    percent: float | None
    memory: int  # bytes


async def read_gpu_use(environ: Mapping[str, str] = os.environ) -> dict[str, GpuUse]:
    """Return the use of each GPU, both by its index and by its UUID; nothing where nvidia-smi is missing or fails."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return {}
    null = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program, *_QUERY, stdin=null, stdout=asyncio.subprocess.PIPE, stderr=null
        )
    except OSError:
        return {}
    try:
        async with asyncio.timeout(_PATIENCE):
            output, _ = await process.communicate()
    except TimeoutError:
        return {}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return parse_gpu_use(output.decode(errors="replace")) if process.returncode == 0 else {}


def parse_gpu_use(text: str) -> dict[str, GpuUse]:
    """Parse the answer: `0, GPU-5f9e..., 97, 30512`, in per cent and MiB; `[N/A]` for what is not known."""
    found: dict[str, GpuUse] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == _COLUMNS:
            percent, memory = map(_number, cells[2:])
            found[cells[0]] = found[cells[1]] = GpuUse(percent, int((memory or 0) * (1 << 20)))
    return found


def gpu_use_of(devices: Sequence[str], known: Mapping[str, GpuUse]) -> GpuUse:
    """Return the use of several devices: per cent on average, and all memory."""
    found = [known[device] for device in devices if device in known]
    percents = [each.percent for each in found if each.percent is not None]
    return GpuUse(sum(percents) / len(percents) if percents else None, sum(each.memory for each in found))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
