"""Small roots that serve as images: a few programs of this machine with the libraries that they need."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path


def small_root(directory: Path, programs: Mapping[str, str]) -> Path:
    """In /bin what is named, each a copy of a program of this machine; nothing else."""
    for name, program in programs.items():
        found = shutil.which(program)
        assert found is not None
        for source, target in [(found, f"/bin/{name}"), *((library, library) for library in _libraries(found))]:
            copy = directory / target.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    return directory


def _libraries(program: str) -> Iterator[str]:
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    yield from re.findall(r"(/\S+) \(0x", shown)
