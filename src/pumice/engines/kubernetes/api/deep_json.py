"""JSON that is nested deeper than the decoder follows: taken apart one level at a time, without recursion.

Where a definition lets anything in, one user can store an object of thousands of levels. Nobody need read it, but the
list or the watch that brings it brings everybody else's objects, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


def members(text: bytes) -> dict[str, msgspec.Raw]:
    """The members of an object, undecoded; none if it is no object."""
    found: dict[str, msgspec.Raw] = {}
    for part in _parts(text, b"{"):
        name = _TOKEN.match(part)
        if name is not None and name[0][:1] == b'"':
            found[msgspec.json.decode(name[0], type=str)] = msgspec.Raw(part[name.end() :].lstrip().removeprefix(b":"))
    return found


def elements(text: bytes) -> list[msgspec.Raw]:
    """The elements of an array, undecoded; none if it is no array."""
    return [msgspec.Raw(part) for part in _parts(text, b"[")]


def _parts(text: bytes, opening: bytes) -> Iterator[bytes]:
    """What stands between the commas of the outermost level."""
    if text.lstrip()[:1] != opening:
        return
    depth, begin = 0, 0
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in _OPENING:
            depth += 1
            if depth == 1:
                begin = token.end()
        elif word in _CLOSING:
            depth -= 1
        if (word in _CLOSING and depth == 0) or (word == b"," and depth == 1):
            if part := text[begin : token.start()].strip():
                yield part
            begin = token.end()
