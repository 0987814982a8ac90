"""The positions of values in a file: a tree beside the values, so that these stay plain dicts and lists.

Aliases share the tree as they share the value, so an alias bomb costs nothing here.
"""

from __future__ import annotations

from msgspec import Struct

from pumice.model.findings import Path

# The mark of a mapping entry is that of its key.
Mark = tuple[int, int, "Marks"]
Marks = dict[str, Mark] | list[Mark] | None


class MarkTree(Struct, frozen=True):
    line: int
    column: int
    children: Marks

    def position(self, path: Path) -> tuple[int, int]:
        """Return line and column (from 1) of a path, or of its nearest ancestor that exists."""
        line, column, children = self.line, self.column, self.children
        for step in path:
            found = _step(children, step)
            if found is None:
                break
            line, column, children = found
        return line, column

    def find(self, path: Path) -> Mark | None:
        """Return the mark of a path; None if the file does not have it."""
        mark: Mark | None = (self.line, self.column, self.children)
        for step in path:
            mark = None if mark is None else _step(mark[2], step)
        return mark


def _step(children: Marks, step: str | int) -> Mark | None:
    if isinstance(children, dict) and isinstance(step, str):
        return children.get(step)
    if isinstance(children, list) and isinstance(step, int) and 0 <= step < len(children):
        mark: Mark = children[step]
        return mark
    return None
