"""How much of the disk a job uses: its claims, the volumes of its pods, and the layers that are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.model.units import size_text

_BLOCK: Final = 512
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

    def excess(self, most: int | None) -> str:
        """Return in words that it is more than a limit; empty if it is not."""
        if most is None or self.total <= most:
            return ""
        return f"uses more of the disk than {size_text(most)} (disk-limit): {self}"

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
