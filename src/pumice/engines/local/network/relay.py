"""Two connections joined into one, and servers whose connections end with them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple

_PART = 65536
# Linger for no time: the kernel then resets the connection.
_RESET = struct.pack("ii", 1, 0)


class Stream(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        """So that the peer sees a failure, and not an end."""
        connection = self.writer.get_extra_info("socket")
        if connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()


Serve = Callable[[Stream], Awaitable[None]]


async def relay(one: Stream, other: Stream) -> None:
    """Until both sides have said all they had to say. A side that breaks off breaks the other."""
    try:
        await asyncio.gather(_copy(one, other), _copy(other, one))
    except OSError:
        one.abort()
        other.abort()
    finally:
        one.writer.close()
        other.writer.close()


async def _copy(source: Stream, target: Stream) -> None:
    while part := await source.reader.read(_PART):
        target.writer.write(part)
        await target.writer.drain()
    # Only this direction is over: who has sent his request still waits for the answer.
    target.writer.write_eof()


async def opened(connection: socket.socket) -> Stream:
    return Stream(*await asyncio.open_connection(sock=connection))


class Server:
    """Serves every connection of a listener in a task of its own, until it is closed."""

    def __init__(self, listener: socket.socket, serve: Serve) -> None:
        self._listener = listener
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._listener)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._attend(Stream(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attend(self, stream: Stream) -> None:
        try:
            # Whatever a client sends or breaks off is its own affair, and must not be heard of here.
            with contextlib.suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
                await self._serve(stream)
        except BaseException:
            stream.abort()
            raise
        finally:
            stream.writer.close()
