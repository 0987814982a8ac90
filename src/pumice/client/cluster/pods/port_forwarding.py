"""Ports of this machine that lead to ports of pods: each connection is a WebSocket to the pod of that name."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pumice.client.backend import RunRef
from pumice.client.cluster.pods.pod_commands import Target, check_right, find_target
from pumice.client.pod_access import PodPort
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.pod_socket import V4, PodSocket
from pumice.store.run_errors import ConnectionFailed, InvalidOption, RunError

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend

_DATA: Final = 0
_ERROR: Final = 1
_PORT_BYTES: Final = 2  # each stream begins with the number of its port
_BLOCK: Final = 1 << 16
# The protocol cannot say that one side sends no more. Seconds of silence after which such a connection is closed.
_HALF_CLOSED: Final = 30.0


@dataclass(slots=True)
class ForwardedPort:
    backend: ClusterBackend
    run: RunRef
    target: PodPort
    tell: Callable[[str], None]
    _server: asyncio.Server = field(init=False)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Raises InvalidOption if the local port is taken."""
        local = self.target.local
        try:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", local)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                message = f"port {local} of 127.0.0.1 is taken"
                raise InvalidOption(message, "leave out LOCAL for any free port") from error
            if error.errno == errno.EACCES:
                message = f"port {local} of 127.0.0.1 is not for you to open"
                raise InvalidOption(message, "ports from 1024 on are") from error
            raise

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
        except RunError as error:
            self._report(error.problem.message)
        except ApiError as error:
            self._report(str(error))
        except OSError:
            # The program on this side has closed its connection.
            return
        except asyncio.CancelledError:
            return
        finally:
            self._connections.discard(serving)
            writer.close()

    def _report(self, why: str) -> None:
        self.tell(f"{self.run}/{self.target.pod}: a connection ended: {why}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = await find_target(self.backend.connection, self.run, self.target.pod)
        opened = await open_port(target, self.target.port)
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


async def open_port(target: Target, port: int) -> PodSocket:
    """Raises RunError."""
    try:
        return await PodSocket.open(
            target.connection.access, target.path("portforward"), [("ports", str(port))], protocols=(V4,)
        )
    except ApiError as error:
        raise target.explained(error, "portforward") from error


async def forward(backend: ClusterBackend, run: RunRef, port: PodPort, tell: Callable[[str], None]) -> ForwardedPort:
    """Raises InvalidOption, NoSuchPod, WrongState, and Denied before a program connects."""
    await find_target(backend.connection, run, port.pod)
    # Not by a connection: the program there may expect exactly one.
    await check_right(backend.connection, run.namespace, "portforward")
    forwarded = ForwardedPort(backend, run, port, tell)
    await forwarded.start()
    return forwarded
