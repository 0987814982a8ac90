"""What this machine cannot do for a pod as it is written: either it runs without that, or it cannot run at all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`fatal`: the container cannot be started. Otherwise it runs, and whoever started it is told once."""

    message: str
    hint: str = ""
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


def fatal(message: str, hint: str = "") -> Problem:
    return Problem(message, hint, fatal=True)
