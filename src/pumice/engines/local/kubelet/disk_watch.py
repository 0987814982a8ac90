"""Measures what a run uses of the disk: its claims, its volumes, and what its pods wrote elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pumice.store.disk_use import DiskUse, measure
from pumice.store.files.run_directory import KEPT

_PAUSE: Final = 5.0


class DiskWatch(Struct):
    claims: Sequence[Path]
    volumes: Path
    directory: Path  # of the run
    _largest: DiskUse = field(default_factory=DiskUse)

    def measure(self) -> DiskUse:
        """Measure the use of the disk; return the largest one so far."""
        self._largest = max(self._largest, self._now(), key=lambda each: each.total)
        return self._largest

    async def watch(self, most: int | None, exceeded: Callable[[str], object]) -> None:
        """Measure now and then; call `exceeded` with a message above the limit."""
        while True:
            used = await asyncio.to_thread(self.measure)
            if excess := used.excess(most):
                exceeded(excess)
            await asyncio.sleep(_PAUSE)

    def _now(self) -> DiskUse:
        layers = [path for path in (self.directory / KEPT).glob("*") if path.name != "volumes"]
        return measure(self.claims, self.volumes / "pods", layers)
