"""One page of a list, split into its items without decoding them: each caller decodes the fields that it reads."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pumice.engines.kubernetes.api.deep_json import elements, members
from pumice.engines.kubernetes.api.errors import UnreachableError


class Page(Struct, frozen=True):
    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str  # empty on the last page


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


_DECODER = msgspec.json.Decoder(_List)
_METADATA = msgspec.json.Decoder(_Metadata)


def read_page(body: bytes) -> Page:
    try:
        try:
            page = _DECODER.decode(body)
        except RecursionError:
            parts = members(body)
            page = _List(_METADATA.decode(parts.get("metadata", b"{}")), elements(bytes(parts.get("items", b""))))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the response is not a list of objects: {error}") from error
    return Page(page.items or [], page.metadata.resource_version, page.metadata.continue_token)
