"""Parse YAML text into plain values with their positions, in bounded time and memory.

The reader handles the parser's events with an explicit stack, because PyYAML's loaders recurse, lose positions,
silently keep the last of two equal keys, and can run code for a tag. Duplicate keys, tags and keys that are not strings
are collected as problems; a syntax error or an exceeded limit ends the file.
"""

from __future__ import annotations

import math
import re
from typing import Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from pumice.model.problem import Position, Problem
from pumice.yaml.marks import Mark, Marks, MarkTree
from pumice.yaml.scalars import Scalar, resolve, resolve_tagged
from pumice.yaml.syntax_errors import explain

MAX_DEPTH: Final = 100
# Counted with aliases expanded, so that a small file cannot expand into a huge one.
MAX_VALUES: Final = 500_000
MAX_PROBLEMS: Final = 100

# libyaml if PyYAML was built with it; the parser in Python reads the same files, but slower.
LOADER: Final[type] = getattr(yaml, "CLoader", yaml.Loader)

_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset({"str", "int", "float", "bool", "null"})
_ACCEPTED_TAGS: Final = "remove it; accepted are !!str, !!int, !!float, !!bool, !!null, !!map and !!seq"
_SURROGATE: Final = "[\ud800-\udfff]"  # compiled when the first text is not ASCII
_SHOWN_CHARACTERS: Final = 60


class _StopReading(Exception):  # noqa: N818 - the reason is already among the problems
    pass


def parse(text: str, file: str, loader: type = LOADER) -> tuple[list[tuple[object, MarkTree]], list[Problem]]:
    """Return the values of all non-empty documents, each with its marks, and the problems of the text."""
    reader = _Reader(file)
    try:
        for event in yaml.parse(text, Loader=loader):
            reader.take(event)
    except _StopReading:
        return reader.documents, reader.problems
    except yaml.YAMLError as error:
        reader.problems.append(explain(error, text, file))
    except (ValueError, OverflowError):
        # The parser in Python passes escapes outside Unicode to chr(). The position is that of the previous event.
        reader.problems.append(
            Problem("an escape after this is not a character", where=Position(file, reader.line, reader.column))
        )
    return reader.documents, reader.problems


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.documents: list[tuple[object, MarkTree]] = []
        self.problems: list[Problem] = []
        self.line = self.column = 1
        self._anchors: dict[str, Node] = {}
        self._open: list[ListNode | MappingNode] = []
        self._values = 0

    def take(self, event: yaml.Event) -> None:
        if event.start_mark is not None:
            self.line, self.column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, CollectionStartEvent):
            self._start(event)
        elif isinstance(event, CollectionEndEvent):
            self._end()
        elif isinstance(event, AliasEvent):
            self._alias(event.anchor or "")
        elif isinstance(event, DocumentStartEvent):
            self._anchors = {}

    def _scalar(self, event: ScalarEvent) -> None:
        self._count(1)
        top = self._mapping_before_key()
        if top and event.value == "<<" and event.implicit[0]:
            top.set_key(MERGE, self.line, self.column)
            return
        node = Node(self._scalar_value(event))
        self._remember(event, node)
        if top:
            self._key(top, node.value, event.value)
        else:
            self._add(node, self.line, self.column)

    def _start(self, event: CollectionStartEvent) -> None:
        self._count(1)
        if len(self._open) >= MAX_DEPTH:
            self._stop(f"nested more than {MAX_DEPTH} levels deep")
        is_mapping = isinstance(event, MappingStartEvent)
        if event.tag not in (None, "!", _TAG + ("map" if is_mapping else "seq")):
            self._refuse_tag(event.tag or "")
        position = self.line, self.column
        node = MappingNode(position) if is_mapping else ListNode(position)
        self._remember(event, node)
        self._open.append(node)

    def _end(self) -> None:
        node = self._open.pop()
        node.close()
        self._add(node, node.line, node.column)

    def _alias(self, name: str) -> None:
        node = self._anchors.get(name) or Node(None)
        if name not in self._anchors:
            self._problem(f"alias *{_shown(name)}: the document has no anchor of this name before it")
        elif node.open:
            self._problem(f"alias *{_shown(name)} is inside its own anchor", "such a value would be infinite")
            node = Node(None)
        elif len(self._open) + node.height > MAX_DEPTH:
            self._stop(f"nested more than {MAX_DEPTH} levels deep through alias *{_shown(name)}")
        self._count(node.size)
        top = self._mapping_before_key()
        if top:
            self._key(top, node.value, f"*{name}")
        elif isinstance(node.value, list) and self._open and getattr(self._open[-1], "key", None) is MERGE:
            # kubectl's reader accepts a list of mappings here, but not an alias of one.
            self._add(Node(None), self.line, self.column)
        else:
            self._add(node, self.line, self.column)

    def _mapping_before_key(self) -> MappingNode | None:
        top = self._open[-1] if self._open else None
        return top if isinstance(top, MappingNode) and top.key is KEY_COMES else None

    def _add(self, node: Node, line: int, column: int) -> None:
        if not self._open:
            if node.value is not None:
                self.documents.append((node.value, MarkTree(line, column, node.marks)))
            return
        top = self._open[-1]
        top.grow(node)
        if isinstance(top, ListNode):
            top.items.append(node.value)
            top.item_marks.append((line, column, node.marks))
        elif top.key is KEY_COMES:
            self._problem("a list or a mapping cannot be a key", "keys must be strings", (line, column))
            top.set_key(DROPPED, line, column)
        else:
            key, top.key = top.key, KEY_COMES
            if isinstance(key, str):
                top.entries[key] = node.value
                top.entry_marks[key] = (top.key_line, top.key_column, node.marks)
            elif key is MERGE:
                self._merge(top, node)

    def _merge(self, top: MappingNode, node: Node) -> None:
        position, before = (top.key_line, top.key_column), len(top.merged)
        if not top.merge(node):
            self._problem("<< takes a mapping, an alias of one, or a list of these", "", position)
            return
        # By the YAML specification the mapping's own key wins, in kubectl the last one.
        twice = next((key for entries, _ in top.merged[before:] for key in entries if key in top.entries), None)
        if twice is not None:
            self._problem(
                f"<< also has {_shown(twice)}, and readers differ on which one counts", "put << first", position
            )

    def _key(self, top: MappingNode, key: object, text: str) -> None:
        if isinstance(key, list | dict):
            self._problem(f"{_shown(text)} is a list or a mapping, which cannot be a key", "keys must be strings")
            top.set_key(DROPPED, self.line, self.column)
            return
        if not isinstance(key, str):
            if isinstance(key, bool):
                meaning = f"means {str(key).lower()}"
            else:
                meaning = "means null" if key is None else "is a number"
            subject = f"{_shown(text)} without quotes" if text else "an empty key"
            self._problem(f"{subject} {meaning} in YAML, and a key must be a string", f'quote it: "{_shown(text)}":')
            key = text
        if key in top.entry_marks:
            first = top.entry_marks[key][0]
            message = f"key {_shown(key)} is given twice: on line {first} and again on line {self.line}"
            self._problem(message, "remove one of the two")
        top.set_key(key, self.line, self.column)

    def _remember(self, event: NodeEvent, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _scalar_value(self, event: ScalarEvent) -> Scalar:
        text = event.value
        if not text.isascii() and re.search(_SURROGATE, text):
            self._problem("half of a surrogate pair is not a character", "write the character itself")
            return re.sub(_SURROGATE, "\N{REPLACEMENT CHARACTER}", text)
        if event.tag is not None and event.tag != "!":
            return self._tagged_value(event.tag, text)
        if event.style or not event.implicit[0]:
            return text
        value = resolve(text)
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(f"{text}: Kubernetes has no such number", "write a finite one, or quote it if it is a string")
            return text
        return value

    def _tagged_value(self, tag: str, text: str) -> Scalar:
        kind = tag.removeprefix(_TAG)
        if kind == tag or kind not in _SCALAR_TAGS:
            self._refuse_tag(tag)
            return text
        try:
            return resolve_tagged(kind, text)
        except ValueError:
            self._problem(f"{_shown(text)} does not fit its tag !!{kind}", "correct the value, or remove the tag")
            return text

    def _refuse_tag(self, tag: str) -> None:
        shown = "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag
        self._problem(f"tag {_shown(shown)} is not accepted", _ACCEPTED_TAGS)

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            self._stop(f"more than {MAX_VALUES:,} values, with aliases expanded", "split the file")

    def _problem(self, message: str, hint: str = "", position: tuple[int, int] | None = None) -> None:
        line, column = position or (self.line, self.column)
        self.problems.append(Problem(message, hint, Position(self.file, line, column)))
        if len(self.problems) == MAX_PROBLEMS:
            self._stop(f"{MAX_PROBLEMS} problems so far: reading stops here")

    def _stop(self, message: str, hint: str = "") -> NoReturn:
        self.problems.append(Problem(message, hint, Position(self.file, self.line, self.column)))
        raise _StopReading


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


# Values under construction: lists and mappings whose end has not been read yet. A node knows its depth and how many
# values it expands to, so that the reader can check the limits before it adds an alias.


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
