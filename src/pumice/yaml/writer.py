"""Write manifests as kubectl prints them: block style, two spaces, list items in the column of their key.

PyYAML's dumpers analyse every scalar again, which would dominate the rendering of a large job (see
`benchmarks/yaml_files.py`). Pods of one job repeat nearly all their text, so this writer analyses each text once and
caches the result in a table of bounded size. The same values always give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TextIO

from pumice.yaml.quoting import literal_block, number, plain_or_quoted

# Enough for the text that the pods of a job share. A full table is cleared.
_MAX_KEPT: Final = 20_000
# Longer text is rarely shared.
_LONGEST_KEPT: Final = 2_048
# Readers expect the colon within 1024 characters, and escapes can make a key six times as long.
_LONGEST_SIMPLE_KEY: Final = 160
_PARTS_PER_WRITE: Final = 16_384
# Testing the exact type first, and abstract types last, halves the time of a large job.
_SCALARS: Final = (str, int, float)
_NO_MAPPING: Final = (str, int, float, list, tuple, type(None))


def write_yaml(documents: Iterable[object], out: TextIO) -> None:
    """Write plain values (dicts with string keys, lists, strings, numbers, booleans, None), separated by `---`."""
    writer = _Writer()
    parts = writer.parts
    for count, document in enumerate(documents):
        if count:
            parts.append("---\n")
        start = len(parts)
        writer.value(document, 0)
        # Each part starts with the line break or space before it, which the first one does not need.
        parts[start] = parts[start][1:]
        parts.append("\n")
        if len(parts) > _PARTS_PER_WRITE:
            out.write("".join(parts))
            parts.clear()
    out.write("".join(parts))


class _Level:
    """Cached text of one depth: keys with the line break and indentation before them, and multi-line blocks."""

    __slots__ = ("blocks", "first_keys", "indent", "keys")

    def __init__(self, depth: int) -> None:
        self.indent = "  " * depth
        self.keys: dict[str, str] = {}
        self.first_keys: dict[str, str] = {}
        self.blocks: dict[str, str] = {}


class _Writer:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self._levels: list[_Level] = [_Level(0)]
        self._texts: dict[str, str] = {}

    def value(self, value: object, depth: int) -> None:
        """Append a value that follows a key or begins a document at this depth."""
        if value is None or isinstance(value, _SCALARS):
            self.parts.append(self._scalar(value, depth))
        elif isinstance(value, Mapping):
            self._mapping(value, depth, first=False)
        elif isinstance(value, list | tuple):
            self._sequence(value, depth, first=False)
        else:
            raise TypeError(f"{type(value).__name__}: only plain values can be written as YAML")

    def _mapping(self, mapping: Mapping[str, object], depth: int, *, first: bool) -> None:
        """`first`: the mapping begins after the dash of a list item, so its first key is on the same line."""
        append, texts = self.parts.append, self._texts
        if not mapping:
            append(" {}")
            return
        level = self._level(depth)
        for key, value in mapping.items():
            if first:
                append(level.first_keys.get(key) or self._key(key, level, first=True))
                first = False
            else:
                append(level.keys.get(key) or self._key(key, level, first=False))
            if type(value) is str:
                append(texts.get(value) or self._text(value, depth))
            elif type(value) is dict or (not isinstance(value, _NO_MAPPING) and isinstance(value, Mapping)):
                self._mapping(value, depth + 1, first=False)
            else:
                self.value(value, depth)

    def _sequence(self, sequence: list[object] | tuple[object, ...], depth: int, *, first: bool) -> None:
        append, texts = self.parts.append, self._texts
        if not sequence:
            append(" []")
            return
        dash = "\n" + self._level(depth).indent + "-"
        for value in sequence:
            append(" -" if first else dash)
            first = False
            if type(value) is str:
                append(texts.get(value) or self._text(value, depth))
            elif isinstance(value, Mapping):
                self._mapping(value, depth + 1, first=True)
            elif isinstance(value, list | tuple):
                self._sequence(value, depth + 1, first=True)
            else:
                self.value(value, depth)

    def _scalar(self, value: str | float | None, depth: int) -> str:
        match value:
            case None:
                return " null"
            case bool():
                return " true" if value else " false"
            case str():
                return self._text(str.__str__(value), depth)
            case int():
                return f" {int(value)}"
            case float():
                return f" {number(value)}"

    def _text(self, text: str, depth: int) -> str:
        """Return text after a key or dash, with the space before it, and cache it unless it is long."""
        if "\n" in text:
            level = self._level(depth)
            return level.blocks.get(text) or self._block(text, level)
        written = " " + plain_or_quoted(text)
        _keep(self._texts, text, written)
        return written

    def _block(self, text: str, level: _Level) -> str:
        written = " " + (literal_block(text, level.indent + "  ") or plain_or_quoted(text))
        _keep(level.blocks, text, written)
        return written

    def _key(self, key: str, level: _Level, *, first: bool) -> str:
        if not isinstance(key, str):
            raise TypeError(f"{key!r}: a key must be a string")
        name = plain_or_quoted(str.__str__(key))
        before = " " if first else "\n" + level.indent
        written = f"{before}{name}:"
        if len(key) > _LONGEST_SIMPLE_KEY:
            written = f"{before}? {name}\n{level.indent}:"
        _keep(level.first_keys if first else level.keys, key, written)
        return written

    def _level(self, depth: int) -> _Level:
        while depth >= len(self._levels):
            self._levels.append(_Level(len(self._levels)))
        return self._levels[depth]


def _keep(table: dict[str, str], text: str, written: str) -> None:
    if len(text) <= _LONGEST_KEPT:
        if len(table) >= _MAX_KEPT:
            table.clear()
        table[text] = written
