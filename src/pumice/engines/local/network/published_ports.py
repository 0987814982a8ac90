"""Publishes a pod's port on 127.0.0.1 of the host (`--publish TASK-INDEX:PORT`)."""

from __future__ import annotations

import errno
import socket
from typing import Protocol

from pumice.engines.local.network.relay import Server, Stream, open_stream, relay
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError

_HOST = "127.0.0.1"


class PodConnector(Protocol):
    """A sandbox as far as published ports need it."""

    async def connect(self, pod: str, port: int) -> socket.socket: ...


class PublishedPort:
    """`local_port` is the wanted port if it is free on the host, else another."""

    def __init__(self, sandbox: PodConnector, pod: str, port: int, wanted: int) -> None:
        self.pod = pod
        self.port = port
        self._sandbox = sandbox
        listener = _listener(wanted)
        self.local_port: int = listener.getsockname()[1]
        self._server = Server(listener, self._serve)
        self.start = self._server.start
        self.close = self._server.close

    @property
    def address(self) -> str:
        return f"{_HOST}:{self.local_port}"

    async def _serve(self, client: Stream) -> None:
        try:
            connection = await self._sandbox.connect(self.pod, self.port)
        except (OSError, StartError, SandboxError):
            # The pod does not exist yet, or does not listen: the client sees a failed connection, as in the pod.
            client.abort()
            return
        await relay(client, await open_stream(connection))


async def publish(sandbox: PodConnector, pod: str, port: int, wanted: int | None = None) -> PublishedPort:
    """`pod` is the pod's full name; it need not exist yet. The wanted port of the host is by default the pod's."""
    published = PublishedPort(sandbox, pod, port, port if wanted is None else wanted)
    await published.start()
    return published


def _listener(port: int) -> socket.socket:
    """Unlike create_server, do not set SO_REUSEADDR, so that a port in use on another address counts as taken."""
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
