"""A relay of bytes between a client and the API server: the network, which a test cuts."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.cluster.background_thread import BackgroundThread

_TURNS = 5  # of the loop, in which connections that were just accepted begin to be served


class TcpRelay(BackgroundThread):
    """`port` leads to `target`, a port of this machine."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self.target = target
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def main(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.mark_ready()
        try:
            await asyncio.Event().wait()
        finally:
            self._server.close()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            for each in self._connections:
                each.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection."""

        async def cut() -> None:
            self._abort()

        self.submit(cut())

    def go_away(self) -> None:
        """Break every connection, and refuse new ones."""

        async def close() -> None:
            assert self._server is not None
            self._server.close()
            self._abort()

        self.submit(close())

    def come_back(self) -> None:
        async def listen() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

        self.submit(listen())

    def _abort(self) -> None:
        for each in self._writers:
            each.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        writers = {writer}
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            writers.add(back)
            self._writers |= writers
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        except OSError:
            # There is no server: the client sees a connection that ends.
            return
        except asyncio.CancelledError:
            return
        finally:
            self._writers -= writers
            # All of them first: the end of the relay may cancel the waiting.
            for each in writers:
                each.transport.abort()
            for each in writers:
                with suppress(OSError):
                    await each.wait_closed()
            self._connections.discard(connection)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
