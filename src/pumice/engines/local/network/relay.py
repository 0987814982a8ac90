"""Relays between two connections, and servers whose connections end with them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

_PART = 65536
# With a linger time of 0 the kernel resets the connection.
_RESET = struct.pack("ii", 1, 0)


class Stream(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        """Reset the connection, so that the peer sees a failure and not an end of data."""
        connection = self.writer.get_extra_info("socket")
        if connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()


Serve = Callable[[Stream], Awaitable[None]]


async def relay(one: Stream, other: Stream, idle: float | None = None) -> None:
    """Copy in both directions until both sides have ended; reset both if one breaks off, or both are idle too long."""
    try:
        async with asyncio.timeout(idle) as deadline:
            await asyncio.gather(_copy(one, other, deadline, idle), _copy(other, one, deadline, idle))
    except OSError:
        one.abort()
        other.abort()
    finally:
        one.writer.close()
        other.writer.close()


async def _copy(source: Stream, target: Stream, deadline: asyncio.Timeout, idle: float | None) -> None:
    while part := await source.reader.read(_PART):
        if idle is not None:
            deadline.reschedule(asyncio.get_running_loop().time() + idle)
        target.writer.write(part)
        await target.writer.drain()
    # Only this direction has ended: a client that has sent its request still waits for the answer.
    target.writer.write_eof()


async def open_stream(connection: socket.socket) -> Stream:
    return Stream(*await asyncio.open_connection(sock=connection))


class Server:
    """Serves each connection of a listener in its own task until it is closed; resets those above its limits."""

    def __init__(
        self, listener: socket.socket, serve: Serve, *, most: int | None = None, most_of_one: int | None = None
    ) -> None:
        """`most_of_one` is the limit for the connections from one address."""
        self._most, self._most_of_one = most, most_of_one
        self._clients: Counter[str] = Counter()
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
        stream, client = Stream(reader, writer), str(writer.get_extra_info("peername")[0])
        full = self._most is not None and len(self._tasks) >= self._most
        if full or (self._most_of_one is not None and self._clients[client] >= self._most_of_one):
            stream.abort()
            return
        task = asyncio.ensure_future(self._handle(stream))
        self._tasks.add(task)
        self._clients[client] += 1

        def forget(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._clients[client] -= 1

        task.add_done_callback(forget)

    async def _handle(self, stream: Stream) -> None:
        try:
            # Errors of a client must not show up in the engine's output.
            with contextlib.suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
                await self._serve(stream)
        except BaseException:
            stream.abort()
            raise
        finally:
            stream.writer.close()
