"""Splits JSON that is nested deeper than the decoder allows, one level at a time and without recursion.

Where a CRD has no schema, a user can store an object of thousands of levels. Pumice does not read it, but it arrives in
the same list or watch as everybody else's objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


def members(text: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of an object, undecoded; empty if the text is no object."""
    found: dict[str, msgspec.Raw] = {}
    for part in _parts(text, b"{"):
        name = _TOKEN.match(part)
        if name is not None and name[0][:1] == b'"':
            found[msgspec.json.decode(name[0], type=str)] = msgspec.Raw(part[name.end() :].lstrip().removeprefix(b":"))
    return found


def elements(text: bytes) -> list[msgspec.Raw]:
    """Return the elements of an array, undecoded; empty if the text is no array."""
    return [msgspec.Raw(part) for part in _parts(text, b"[")]


def _parts(text: bytes, opening: bytes) -> Iterator[bytes]:
    """Yield the text between the commas of the outermost level."""
    if text.lstrip()[:1] != opening:
        return
    depth, begin = 0, 0
    for token in _TOKEN.finditer(text):
        symbol = token[0]
        if symbol in _OPENING:
            depth += 1
            if depth == 1:
                begin = token.end()
        elif symbol in _CLOSING:
            depth -= 1
        if (symbol in _CLOSING and depth == 0) or (symbol == b"," and depth == 1):
            if part := text[begin : token.start()].strip():
                yield part
            begin = token.end()
