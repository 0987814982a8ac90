"""A connection to the API server, which carries one request at a time: asked, answered to the end, asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from pumice.engines.kubernetes.api.http1 import AnswerReader, ProtocolError

# So much of a stream may wait to be read; then the server has to wait, too.
_FULL = 1 << 20


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed = self._loop.create_future()
        # Which certificate it showed, counted by the credentials; and when it was last used, by the loop's clock.
        self.generation = 0
        self.idle_since = 0.0
        # Whether the answer to the present request has begun.
        self.answered = False
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._waiting: asyncio.Future[None] | None = None
        # What ended it, for whoever comes to use it after that.
        self._failure: Exception | None = None
        self._streaming = self._paused = False
        self._unread = 0
        self._ready: Callable[[AnswerReader], bool] = _is_complete

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, patience: float) -> AnswerReader:
        """The whole answer. Raises OSError, TimeoutError or ProtocolError; then the connection is of no more use."""
        return await self._ask(request, patience, _is_complete)

    async def ask_stream(self, request: bytes, patience: float) -> AnswerReader:
        """The head of the answer; the body is then read piece by piece, by `more`."""
        self._streaming = True
        return await self._ask(request, patience, _has_head)

    async def more(self, patience: float) -> bytes:
        """The next bytes of the stream; none at its end."""
        reader = self._reader
        while not (piece := reader.take()) and not reader.complete:
            await self._wait(patience, _anything)
        self._unread = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def become_tunnel(self) -> None:
        """The proxy has answered; from here on it passes on whatever is said."""
        self._reader = AnswerReader()
        self._streaming = False

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _ask(self, request: bytes, patience: float, ready: Callable[[AnswerReader], bool]) -> AnswerReader:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._reader = reader = AnswerReader()
        self.answered = False
        transport.write(request)
        await self._wait(patience, ready)
        return reader

    async def _wait(self, patience: float, ready: Callable[[AnswerReader], bool]) -> None:
        """Until the reader is ready. After whoever gives up, nobody can use the connection: his answer may yet come."""
        if self._failure is not None:
            raise self._failure
        self._waiting = waiting = self._loop.create_future()
        self._ready = ready
        timer = self._loop.call_later(patience, self._too_late, waiting)
        try:
            await waiting
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting = None
            timer.cancel()

    @staticmethod
    def _too_late(waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_exception(TimeoutError())

    def _fail(self, error: Exception) -> None:
        self._failure = error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)

    # --- what the loop calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.answered = True
        reader, waiting = self._reader, self._waiting
        try:
            reader.feed(data)
        except ProtocolError as error:
            self._fail(error)
            self.close()
            return
        if self._streaming:
            self._unread += len(data)
            if self._unread > _FULL and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
        if waiting is not None and not waiting.done() and self._ready(reader):
            waiting.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        try:
            self._reader.feed_end()
        except ProtocolError as error:
            self._fail(exc or ConnectionResetError(str(error)))
        else:
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
        if not self.closed.done():
            self.closed.set_result(None)


def _is_complete(reader: AnswerReader) -> bool:
    return reader.complete


def _has_head(reader: AnswerReader) -> bool:
    return reader.status != 0


def _anything(reader: AnswerReader) -> bool:
    """Whatever came is worth waking up for."""
    del reader
    return True
