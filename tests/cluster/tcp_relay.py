"""A relay of bytes between a client and the API server: the network, which a test cuts."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.cluster.background_thread import BackgroundThread


class TcpRelay(BackgroundThread):
    """`port` leads to `target`, a port of this machine."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self.target = target
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def main(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.mark_ready()
        try:
            await asyncio.Event().wait()
        finally:
            self._server.close()
            self._abort()

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
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        finally:
            self._writers -= {writer, back}
            writer.close()
            back.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
