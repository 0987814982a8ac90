"""A watch: one long response with a line for each change.

Objects may be several megabytes long, so lines are assembled here instead of by a reader with a limit. A dead server is
noticed because a live one sends a bookmark about every minute.
"""

from __future__ import annotations

import random

import msgspec

from pumice.engines.kubernetes.api.connection import Connection
from pumice.engines.kubernetes.api.deep_json import members
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.http1 import ProtocolError
from pumice.engines.kubernetes.api.transport import Transport

# How long a watch lasts in seconds; random, so that watches do not all end at once.
_LIFETIME = (300.0, 600.0)
_MAX_SILENCE = 150.0
_RANDOM = random.Random()  # noqa: S311 - not a secret


class Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Code(msgspec.Struct):
    code: int = 500


_DECODER = msgspec.json.Decoder(Event)


def watch_lifetime() -> float:
    return _RANDOM.uniform(*_LIFETIME)


class Watch:
    def __init__(self, transport: Transport, target: str, accept: str) -> None:
        self._transport = transport
        self._target = target
        self._accept = accept
        self._connection: Connection | None = None
        # The pieces of a line whose end has not arrived, joined once when it has: there may be hundreds.
        self._begun: list[bytes] = []

    async def read(self) -> list[bytes]:
        """Return the lines that have arrived, at least one; empty when the server has ended the watch."""
        if self._connection is None:
            self._connection = await self._transport.open_stream(self._target, self._accept)
        try:
            while piece := await self._connection.read(_MAX_SILENCE):
                first, *others = piece.split(b"\n")
                self._begun.append(first)
                if others:
                    lines = [b"".join(self._begun), *others]
                    self._begun = [lines.pop()]
                    if lines := [line for line in lines if line]:
                        return lines
        except (OSError, ProtocolError) as error:
            raise self._transport.unreachable(error) from error
        # Text after the last line break was cut off, and is no event.
        return []

    def close(self) -> None:
        """Close the connection: HTTP/1.1 has no other way to cancel a watch."""
        if self._connection is not None:
            self._connection.close()


def read_event(line: bytes) -> Event:
    """Decode a line; raise ApiError for an event of type ERROR."""
    try:
        try:
            event = _DECODER.decode(line)
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
