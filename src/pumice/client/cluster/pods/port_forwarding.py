"""Ports of this machine that lead to ports of pods: each connection is a WebSocket to the pod of that name."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.pods.pod_commands import check_right, find_target
from pumice.client.pod_access import PodPort
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.pod_socket import V4, PodSocket
from pumice.store.run_errors import ConnectionFailed, InvalidOption, RunError

_DATA: Final = 0
_ERROR: Final = 1
_PORT_BYTES: Final = 2  # each stream begins with the number of its port
_BLOCK: Final = 1 << 16
# The protocol cannot say that one side sends no more. Seconds of silence after which such a connection is closed.
_HALF_CLOSED: Final = 30.0

_NOT_OPENED: Final = {
    errno.EADDRINUSE: ("taken", "leave out LOCAL for any free port"),
    errno.EACCES: ("not for you to open", "ports from 1024 on are"),
}


@dataclass(slots=True)
class ForwardedPort:
    connection: Connection
    run: RunRef
    target: PodPort
    tell: Callable[[str], None]
    _server: asyncio.Server = field(init=False)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def local_port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Raises InvalidOption if the local port is taken."""
        local = self.target.local
        try:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", local)
        except OSError as error:
            why = _NOT_OPENED.get(error.errno or 0)
            if why is None:
                raise
            raise InvalidOption(f"port {local} of 127.0.0.1 is {why[0]}", why[1]) from error

    async def close(self) -> None:
        self._server.close()
        for each in self._connections:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(serving)
        try:
            await serving
        except (RunError, ApiError) as error:
            why = error.problem.message if isinstance(error, RunError) else str(error)
            self.tell(f"{self.run}/{self.target.pod}: a connection ended: {why}")
        except (OSError, asyncio.CancelledError):
            # The program on this side has closed its connection, or the port is closed.
            return
        finally:
            self._connections.discard(serving)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = await find_target(self.connection, self.run, self.target.pod)
        try:
            access, params = self.connection.access, [("ports", str(self.target.port))]
            opened = await PodSocket.open(access, target.path("portforward"), params, protocols=(V4,))
        except ApiError as error:
            raise target.explained(error, "portforward") from error
        sending = asyncio.create_task(_send(reader, opened))
        try:
            await self._receive(opened, writer, sending)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await opened.close()

    async def _receive(self, opened: PodSocket, writer: asyncio.StreamWriter, sending: asyncio.Task[None]) -> None:
        begun = dict.fromkeys((_DATA, _ERROR), 0)  # how much of the port number has come
        receiving: asyncio.Task[tuple[int, bytes] | None] | None = None
        try:
            while True:
                receiving = asyncio.create_task(opened.receive())
                await asyncio.wait({receiving, sending}, return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done():
                    await asyncio.wait({receiving}, timeout=_HALF_CLOSED)
                    if not receiving.done():
                        return
                if (found := receiving.result()) is None:
                    if opened.is_cut and not sending.done():
                        raise ConnectionFailed("the cluster was lost; a new one may succeed")
                    return
                stream, data = found
                if stream not in begun:
                    continue
                head = min(_PORT_BYTES - begun[stream], len(data))
                begun[stream] += head
                if not (data := data[head:]):
                    continue
                if stream == _ERROR:
                    raise ConnectionFailed(data.decode("utf-8", "replace").strip())
                writer.write(data)
                await writer.drain()
        finally:
            if receiving is not None:
                receiving.cancel()
                with suppress(asyncio.CancelledError, ApiError):
                    await receiving


async def _send(reader: asyncio.StreamReader, opened: PodSocket) -> None:
    with suppress(OSError, ApiError):
        while data := await reader.read(_BLOCK):
            await opened.send(_DATA, data)


async def forward(connection: Connection, run: RunRef, port: PodPort, tell: Callable[[str], None]) -> ForwardedPort:
    """Raises InvalidOption, NoSuchPod, WrongState, and Denied before a program connects."""
    await find_target(connection, run, port.pod)
    # Not by a connection: the program there may expect exactly one.
    await check_right(connection, run.namespace, "portforward")
    forwarded = ForwardedPort(connection, run, port, tell)
    await forwarded.start()
    return forwarded
