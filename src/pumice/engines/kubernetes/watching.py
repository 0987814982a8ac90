"""A watch: one long answer, a line for each change, read in whatever pieces the network brings.

An object may be several megabytes long, so lines are put together here rather than by a reader with a limit. A server
that is gone without a word is noticed, because a living one sends a bookmark every minute.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
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
        # The beginning of a line whose end has not arrived. A large object comes in hundreds of pieces, which are
        # joined once, when the last one is there.
        self._begun: list[bytes] = []

    async def read(self) -> list[bytes]:
        """Lines, as many as have arrived, at least one; none when the server has ended the watch."""
        try:
            if self._response is None:
                self._response = await self._open()
            while piece := await self._response.content.readany():
                if lines := self._complete(piece):
                    return lines
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._transport.unreachable(error) from error
        # What stands after the last line break was cut off, and is no event.
        return []

    def close(self) -> None:
        """Cut it off: there is no other way to tell the server that nobody listens any more."""
        if self._response is not None:
            self._response.close()

    async def _open(self) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_SILENCE)
        response = await self._transport.open("GET", self._url, headers=self._headers, timeout=timeout)
        if response.status != HTTPStatus.OK:
            raise ApiError.from_answer(response.status, await response.read(), response.headers.get("Retry-After"))
        return response

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
