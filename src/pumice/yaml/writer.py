"""Write manifests as kubectl prints them: block style, two spaces, list items in the column of their key.

PyYAML's dumpers analyse every scalar again, which would dominate the rendering of a large job (see
`benchmarks/yaml_files.py`). Pods of one job repeat nearly all their text, so this writer analyses each text once and
caches the result in a table of bounded size. The same values always give the same bytes.

Every reader must read the same values. Readers of YAML 1.1 (PyYAML, kubectl) and 1.2 (most others) disagree about
unquoted words. A string stays unquoted only if all of them read it as a string; `no`, `1:30`, `0o17` and `2024-01-01`
are quoted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring
from typing import Final, TextIO

from pumice.model.text import HIDDEN_CHARACTERS

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
# Words that some reader takes for a boolean or null, in any case.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", ".nan"})
# Patterns are compiled when they are first used: most commands load this module and write no YAML.
_NUMBER_LIKE: Final = r"""(?x)
      [0-9][0-9_,]* (?:\.[0-9_]*)? (?:[eE][-+]?[0-9_]*)?   # decimal
    | 0[xXoObB] [-+]? [0-9a-fA-F_]*                        # other bases
    | [0-9][0-9_]* (?::[0-9_]+)+ (?:\.[0-9_]*)?            # base 60
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} .*                    # date and time
    """
# Characters that YAML does not allow unescaped, that its versions treat differently, or that a terminal would obey.
_NEEDS_ESCAPE: Final = f"[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[{HIDDEN_CHARACTERS}]"
_PLAIN: Final = (
    r"(?:[A-Za-z0-9_/$(\\]|--?[A-Za-z]|\.{1,2}/|\.[A-Za-z]|[^\W\x00-\x7f])"  # how it may begin
    r"(?:[^\s:#]|:(?=[^\s])|(?<=[^\s])\#|[ ](?=[^\s#]))*\Z"  # no `: `, no ` #`, no space at the end
)


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


def plain_or_quoted(text: str) -> str:
    """Return a string on one line, quoted if necessary."""
    if re.match(_PLAIN, text) and text.lower() not in _WORDS and not re.fullmatch(_NUMBER_LIKE, text):
        return text if not re.search(_NEEDS_ESCAPE, text) else _double_quoted(text)
    if ('"' in text or "\\" in text) and "\n" not in text and "\t" not in text and not re.search(_NEEDS_ESCAPE, text):
        # JSON is more readable in single quotes.
        return "'" + text.replace("'", "''") + "'"
    return _double_quoted(text)


def literal_block(text: str, indent: str) -> str | None:
    """Return a multi-line string as a `|` block with this indentation; None if a block cannot represent it."""
    if "\n" not in text or not text.strip("\n \t") or re.search(_NEEDS_ESCAPE, text):
        return None
    # Readers detect the indentation from the first line, so a blank or indented one needs an explicit indicator.
    header = "|2" if text[0] in " \t\n" else "|"
    if not text.endswith("\n"):
        header += "-"
    elif text.endswith("\n\n"):
        header += "+"
    lines = text.removesuffix("\n").split("\n")
    return header + "".join("\n" + indent + line if line else "\n" for line in lines)


def number(value: float) -> str:
    """Return a float with a point and a signed exponent, which readers of YAML 1.1 require."""
    if not math.isfinite(value):
        raise ValueError(f"{value}: neither JSON nor Kubernetes has such a number")
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text


def _double_quoted(text: str) -> str:
    return re.sub(_NEEDS_ESCAPE, _escape, encode_basestring(text))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the largest code with four digits
