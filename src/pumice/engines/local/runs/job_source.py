"""Where a Job was read from: its file, and the lines of its fields. It can be stored with a run, and sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pumice.model.findings import Path
from pumice.model.problem import NOWHERE, Position
from pumice.yaml.marks import MarkTree


@dataclass(frozen=True, slots=True)
class JobSource:
    """Call it with a path of the Job to get the path's position. A Job that was not read from a file has none."""

    file: str = ""
    marks: MarkTree | None = None

    def __call__(self, path: Path) -> Position:
        if self.marks is None:
            return NOWHERE
        return Position(self.file, self.marks.position(path)[0])

    def plain(self) -> Any:
        """Return the marks as plain data."""
        return None if self.marks is None else [self.marks.line, self.marks.column, self.marks.children]

    @classmethod
    def of(cls, file: str, plain: Any) -> JobSource:
        """Return the source of plain data, which `plain` made."""
        if plain is None:
            return cls(file)
        line, column, children = plain
        return cls(file, MarkTree(line, column, children))
