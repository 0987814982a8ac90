"""Asks nvidia-smi which programs compute on which GPU, so that the queue takes no GPU that another program uses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

_TIMEOUT: Final = 10  # it is slow while the driver wakes up
_CSV: Final = "--format=csv,noheader"


def read_gpu_programs(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what computes on each busy GPU (`python3 (pid 42)`), both by its index and by its UUID."""
    indexes = {uuid: index for index, uuid in _ask(environ, "--query-gpu=index,uuid", 2)}
    found: dict[str, str] = {}
    for uuid, pid, program in _ask(environ, "--query-compute-apps=gpu_uuid,pid,process_name", 3):
        text = f"{PurePath(program).name} (pid {pid})"
        for name in filter(None, (uuid, indexes.get(uuid))):
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _ask(environ: Mapping[str, str], query: str, columns: int) -> list[tuple[str, ...]]:
    """Return the rows of an answer; none where there is no nvidia-smi or it fails."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return []
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, query, _CSV], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = (tuple(cell.strip() for cell in line.split(",", columns - 1)) for line in answer.stdout.splitlines())
    return [row for row in rows if answer.returncode == 0 and len(row) == columns]
