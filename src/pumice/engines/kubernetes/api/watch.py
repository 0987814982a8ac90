"""A watch: one long answer, a line for each change, read in whatever pieces the network brings.

An object may be several megabytes long, so lines are put together here rather than by a reader with a limit. A server
that is gone without a word is noticed, because a living one sends a bookmark every minute.
"""

from __future__ import annotations

import random

import msgspec

from pumice.engines.kubernetes.api.connection import Connection
from pumice.engines.kubernetes.api.deep_json import members
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.http1 import ProtocolError
from pumice.engines.kubernetes.api.transport import Transport

# How long a watch lives before it is asked for anew, in seconds: never the same, so that they do not all end at once.
_LIFETIME = (300.0, 600.0)
# Without a word for this long, the connection is dead. Bookmarks come about each minute.
_SILENCE = 150.0
_RANDOM = random.Random()  # noqa: S311 - nobody's secret hangs on how long a watch lives


class Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_DECODER = msgspec.json.Decoder(Event)


def watch_lifetime() -> float:
    return _RANDOM.uniform(*_LIFETIME)


class Watch:
    def __init__(self, transport: Transport, target: str, accept: str) -> None:
        self._transport = transport
        self._target = target
        self._accept = accept
        self._connection: Connection | None = None
        # The beginning of a line whose end has not arrived. A large object comes in hundreds of pieces, which are
        # joined once, when the last one is there.
        self._begun: list[bytes] = []

    async def read(self) -> list[bytes]:
        """Lines, as many as have arrived, at least one; none when the server has ended the watch."""
        if self._connection is None:
            self._connection = await self._transport.stream(self._target, self._accept)
        try:
            while piece := await self._connection.more(_SILENCE):
                if lines := self._complete(piece):
                    return lines
        except (OSError, ProtocolError) as error:
            raise self._transport.unreachable(error) from error
        # What stands after the last line break was cut off, and is no event.
        return []

    def close(self) -> None:
        """Cut it off: there is no other way to tell the server that nobody listens any more."""
        if self._connection is not None:
            self._connection.close()

    def _complete(self, piece: bytes) -> list[bytes]:
        first, *others = piece.split(b"\n")
        self._begun.append(first)
        if not others:
            return []
        lines = [b"".join(self._begun), *others]
        self._begun = [lines.pop()]
        return [line for line in lines if line]


def read_event(line: bytes) -> Event:
    """What a line says; raises the error that it tells of."""
    try:
        event = _decoded(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the watch brought a line that is no event: {error}") from error
    if event.type == "ERROR":
        raise _error(event.object)
    return event


def _decoded(line: bytes) -> Event:
    try:
        return _DECODER.decode(line)
    except RecursionError:
        parts = members(line)
        return Event(msgspec.json.decode(parts.get("type", b'""'), type=str), parts.get("object", msgspec.Raw(b"{}")))


class _Code(msgspec.Struct):
    code: int = 500


def _error(status: msgspec.Raw) -> ApiError:
    body = bytes(status)
    try:
        code = msgspec.json.decode(body, type=_Code).code
    except msgspec.MsgspecError:
        code = 500
    return ApiError.from_answer(code, body)
