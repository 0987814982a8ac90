"""A watch: one long answer, a line for each change, read in whatever pieces the network brings.

An object may be several megabytes long, so lines are put together here rather than by a reader with a limit. A server
that is gone without a word is noticed, because a living one sends a bookmark every minute.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus

import aiohttp
import msgspec
from yarl import URL

from pumice.engines.kubernetes.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.transport import Transport

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
    def __init__(self, transport: Transport, url: URL, headers: Mapping[str, str] | None) -> None:
        self._transport = transport
        self._url = url
        self._headers = headers
        self._response: aiohttp.ClientResponse | None = None

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The changes, as many at a time as have arrived. Ends when the server ends it."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_SILENCE)
        try:
            response = await self._transport.open("GET", self._url, headers=self._headers, timeout=timeout)
            self._response = response
            if response.status != HTTPStatus.OK:
                answer = await response.read()
                raise ApiError.from_answer(response.status, answer, response.headers.get("Retry-After"))
            async for lines in _lines(response.content):
                yield [_event(line) for line in lines]
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._transport.unreachable(error) from error

    def close(self) -> None:
        """Cut it off: there is no other way to tell the server that nobody listens any more."""
        if self._response is not None:
            self._response.close()
            self._response = None


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines. What stands after the last line break when the stream ends was cut off, and is no event."""
    pieces: list[bytes] = []
    while piece := await content.readany():
        if b"\n" not in piece:
            # Of a large object that comes in hundreds of pieces, each is touched once.
            pieces.append(piece)
            continue
        first, *others = piece.split(b"\n")
        pieces.append(first)
        lines = [b"".join(pieces), *others]
        pieces = [lines.pop()]
        yield [line for line in lines if line]


def _event(line: bytes) -> Event:
    try:
        event = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the watch brought a line that is no event: {error}") from error
    if event.type == "ERROR":
        raise _error(event.object)
    return event


class _Code(msgspec.Struct):
    code: int = 500


def _error(status: msgspec.Raw) -> ApiError:
    body = bytes(status)
    try:
        code = msgspec.json.decode(body, type=_Code).code
    except msgspec.MsgspecError:
        code = 500
    return ApiError.from_answer(code, body)
