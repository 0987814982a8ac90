"""A pod's port on 127.0.0.1 of the host, for a browser or a debugger (`--publish TASK-INDEX:PORT`)."""

from __future__ import annotations

import errno
import socket
from typing import Protocol

from pumice.engines.local.network.relay import Server, Stream, opened, relay
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError

_HOST = "127.0.0.1"


class PodConnector(Protocol):
    """What publishing needs of the sandbox."""

    async def connect(self, pod: str, port: int) -> socket.socket: ...


class PublishedPort:
    """One published port. `local_port` is the one that was wanted where that is free on the host, else another."""

    def __init__(self, sandbox: PodConnector, pod: str, port: int, wanted: int) -> None:
        self.pod = pod
        self.port = port
        self._sandbox = sandbox
        listener = _listener(wanted)
        self.local_port: int = listener.getsockname()[1]
        self._server = Server(listener, self._serve)

    @property
    def address(self) -> str:
        return f"{_HOST}:{self.local_port}"

    async def start(self) -> None:
        await self._server.start()

    async def close(self) -> None:
        await self._server.close()

    async def _serve(self, client: Stream) -> None:
        try:
            connection = await self._sandbox.connect(self.pod, self.port)
        except (OSError, StartError, SandboxError):
            # The pod is not there yet, or nobody listens in it: the client sees what it would see in the pod.
            client.abort()
            return
        await relay(client, await opened(connection))


async def publish(sandbox: PodConnector, pod: str, port: int, wanted: int | None = None) -> PublishedPort:
    """`pod` is the pod's full name. It need not exist yet. The port of the host is the same unless told otherwise."""
    publication = PublishedPort(sandbox, pod, port, port if wanted is None else wanted)
    await publication.start()
    return publication


def _listener(port: int) -> socket.socket:
    """Not create_server: without SO_REUSEADDR a port that a program uses on another address counts as taken, too."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((_HOST, port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            listener.close()
            raise
        listener.bind((_HOST, 0))
    listener.listen()
    return listener
