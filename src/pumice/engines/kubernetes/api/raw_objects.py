"""Splits the pages of a list and the lines of a watch into objects, undecoded: each caller decodes what it reads.

Where a CRD has no schema, a user can store an object of thousands of levels. Pumice does not read it, but it arrives in
the same list or watch as everybody else's objects. JSON that is nested deeper than the decoder allows is split one
level at a time and without recursion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


class PageMetadata(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")  # empty on the last page


class Page(msgspec.Struct):
    metadata: PageMetadata
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Code(msgspec.Struct):
    code: int = 500


_PAGE: Final = msgspec.json.Decoder(Page)
_METADATA: Final = msgspec.json.Decoder(PageMetadata)
_EVENT: Final = msgspec.json.Decoder(Event)


def read_page(body: bytes) -> Page:
    try:
        try:
            return _PAGE.decode(body)
        except RecursionError:
            parts = members(body)
            return Page(_METADATA.decode(parts.get("metadata", b"{}")), elements(bytes(parts.get("items", b""))))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the response is not a list of objects: {error}") from error


def read_event(line: bytes) -> Event:
    """Decode a line of a watch; raise ApiError for an event of type ERROR."""
    try:
        try:
            event = _EVENT.decode(line)
        except RecursionError:
            parts = members(line)
            kind = msgspec.json.decode(parts.get("type", b'""'), type=str)
            event = Event(kind, parts.get("object", msgspec.Raw(b"{}")))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the watch sent a line that is not an event: {error}") from error
    if event.type != "ERROR":
        return event
    status = bytes(event.object)
    try:
        code = msgspec.json.decode(status, type=_Code).code
    except msgspec.MsgspecError:
        code = 500
    raise ApiError.from_response(code, status)


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
