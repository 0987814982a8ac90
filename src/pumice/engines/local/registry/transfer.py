"""How far a download is: bytes, layers and speed, as one line of text."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.model.units import size_text


@dataclass(slots=True)
class Transfer:
    total: int  # bytes
    layers: int
    started: float  # seconds of a monotonic clock
    done: int = 0
    finished_layers: int = 0
    resumed: int = 0  # bytes that were here before

    def text(self, now: float) -> str:
        """Return `3 of 5 layers, 120 MiB of 1.2 GiB, 45 MiB/s`."""
        seconds = max(now - self.started, 0.001)
        speed = size_text(max(0, int((self.done - self.resumed) / seconds)))
        layers = f"{self.finished_layers} of {self.layers} layers"
        return f"{layers}, {size_text(self.done)} of {size_text(self.total)}, {speed}/s"
