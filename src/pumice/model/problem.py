"""What keeps a file from being read at all, or makes what was read doubtful: place, message, hint.

Findings speak of values by their path; a problem speaks of the file's text, before there are any paths.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`line` and `column` count from 1; both are 0 where the file could not even be opened."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"
