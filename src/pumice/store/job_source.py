"""Where a Job was read from: its file, and the lines of its fields. It can be stored with a run, and sent."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from pumice.model.findings import Path
from pumice.model.problem import NOWHERE, Position
from pumice.yaml.marks import MarkTree

LONGEST_TEXT: Final = 256 << 10  # characters that are stored


class JobSource(Struct, frozen=True):
    """Call it with a path of the Job to get the path's position. A Job that was not read from a file has none."""

    file: str = ""
    marks: MarkTree | None = None
    text: str = ""  # of the document of the Job, as it was written; nothing of other documents, such as Secrets
    first: int = 1  # the line of the file on which the text begins

    def __call__(self, path: Path) -> Position:
        if self.marks is None:
            return NOWHERE
        return Position(self.file, self.marks.position(path)[0])

    def line(self, path: Path) -> int | None:
        """Return the line of a field, if the file has it."""
        mark = None if self.marks is None else self.marks.find(path)
        return None if mark is None else mark[0]

    def plain(self) -> Any:
        """Return marks and text as plain data."""
        if self.marks is None:
            return None
        text = [self.text, self.first] if 0 < len(self.text) <= LONGEST_TEXT else []
        return [self.marks.line, self.marks.column, self.marks.children, *text]

    @classmethod
    def of(cls, file: str, plain: Any) -> JobSource:
        """Return the source of plain data, which `plain` made."""
        if plain is None:
            return cls(file)
        line, column, children, *rest = plain
        text, first = rest if len(rest) == 2 else ("", 1)  # noqa: PLR2004 - text and its first line
        return cls(file, MarkTree(line, column, children), str(text), int(first))
