"""How much of the disk a job uses: its claims, the volumes of its pods, and the layers that are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

_BLOCK: Final = 512
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
_THOUSAND: Final = 1024
# Less than this is not worth a line.
_SMALL: Final = 1 << 20


class DiskUse(Struct, frozen=True):
    """In bytes."""

    claims: int = 0
    volumes: int = 0
    layers: int = 0

    @property
    def total(self) -> int:
        return self.claims + self.volumes + self.layers

    def __str__(self) -> str:
        parts = {"claims": self.claims, "emptyDir": self.volumes, "layers": self.layers}
        return ", ".join(f"{name} {size_text(size)}" for name, size in parts.items() if size >= _SMALL)


def measure(claims: Iterable[Path], volumes: Path, layers: Iterable[Path]) -> DiskUse:
    """Walk all of it; what disappears meanwhile does not count."""
    return DiskUse(sum(map(tree_size, claims)), tree_size(volumes), sum(map(tree_size, layers)))


def tree_size(top: Path) -> int:
    """Return the bytes that a directory takes with all that is below it; 0 if there is none."""
    total, waiting = 0, [str(top)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return total


def size_text(size: float) -> str:
    """Return `1.5 GiB`."""
    number = 0
    while size >= _THOUSAND * _THOUSAND and number + 1 < len(_UNITS):
        size, number = size / _THOUSAND, number + 1
    return f"{size / _THOUSAND:.1f} {_UNITS[number]}"
