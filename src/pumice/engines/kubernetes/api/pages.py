"""One page of a list, cut into its items without decoding them: who wants which fields of which item, decodes those."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from pumice.engines.kubernetes.api.deep_json import elements, members
from pumice.engines.kubernetes.api.errors import UnreachableError


@dataclass(frozen=True, slots=True)
class Page:
    items: list[msgspec.Raw]
    version: str
    # Where the next page begins; empty on the last one.
    more: str


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    more: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


_DECODER = msgspec.json.Decoder(_List)
_METADATA = msgspec.json.Decoder(_Metadata)


def read_page(answer: bytes) -> Page:
    try:
        page = _decoded(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the answer is no list of objects: {error}") from error
    return Page(page.items or [], page.metadata.version, page.metadata.more)


def _decoded(answer: bytes) -> _List:
    try:
        return _DECODER.decode(answer)
    except RecursionError:
        parts = members(answer)
        return _List(_METADATA.decode(parts.get("metadata", b"{}")), elements(bytes(parts.get("items", b""))))
