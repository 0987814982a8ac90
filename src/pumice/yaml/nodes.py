"""Values under construction: lists and mappings whose end has not been read yet.

A node knows its depth and how many values it expands to, so that the reader can check the limits before it adds an
alias.
"""

from __future__ import annotations

from pumice.yaml.marks import Mark, Marks


class Marker:
    """States of a mapping, distinct from every key."""


KEY_COMES = Marker()
MERGE = Marker()
DROPPED = Marker()


class Node:
    __slots__ = ("height", "marks", "open", "size", "value")

    def __init__(self, value: object, marks: Marks = None, height: int = 0) -> None:
        self.value = value
        self.marks = marks
        self.size = 1
        self.height = height
        self.open = False


class Collection(Node):
    __slots__ = ("column", "line")

    def __init__(self, value: object, marks: Marks, position: tuple[int, int]) -> None:
        super().__init__(value, marks, 1)
        self.line, self.column = position
        self.open = True

    def grow(self, node: Node) -> None:
        self.size += node.size
        self.height = max(self.height, node.height + 1)

    def close(self) -> None:
        self.open = False


class ListNode(Collection):
    __slots__ = ("item_marks", "items")

    def __init__(self, position: tuple[int, int]) -> None:
        self.items: list[object] = []
        self.item_marks: list[Mark] = []
        super().__init__(self.items, self.item_marks, position)


class MappingNode(Collection):
    __slots__ = ("entries", "entry_marks", "key", "key_column", "key_line", "merged")

    def __init__(self, position: tuple[int, int]) -> None:
        self.entries: dict[str, object] = {}
        self.entry_marks: dict[str, Mark] = {}
        super().__init__(self.entries, self.entry_marks, position)
        self.key: str | Marker = KEY_COMES
        self.key_line = self.key_column = 0
        self.merged: list[tuple[dict[str, object], dict[str, Mark]]] = []

    def set_key(self, key: str | Marker, line: int, column: int) -> None:
        self.key, self.key_line, self.key_column = key, line, column

    def merge(self, node: Node) -> bool:
        """Add the value of a `<<` key, a mapping or a list of mappings; return False for anything else."""
        pairs: list[tuple[object, Marks]] = [(node.value, node.marks)]
        if isinstance(node.value, list) and isinstance(node.marks, list):
            # Of several mappings in a list the first wins, so it is merged last.
            pairs = [(item, mark[2]) for item, mark in zip(node.value, node.marks, strict=True)][::-1]
        for value, marks in pairs:
            if not isinstance(value, dict) or not isinstance(marks, dict):
                return False
            self.merged.append((value, marks))
        return True

    def close(self) -> None:
        """Put merged entries before the mapping's own, which win wherever the merge key is."""
        super().close()
        if self.merged:
            own, own_marks = self.entries.copy(), self.entry_marks.copy()
            self.entries.clear()
            self.entry_marks.clear()
            for entries, marks in self.merged:
                self.entries.update(entries)
                self.entry_marks.update(marks)
            self.entries.update(own)
            self.entry_marks.update(own_marks)
