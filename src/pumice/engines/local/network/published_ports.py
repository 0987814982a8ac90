"""Publishes ports of pods on 127.0.0.1 of the host (`--publish`, `pumice forward`)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import Final, Protocol

from pumice.engines.local.network.local_ports import LOOPBACK, PortTakenError, listen, listen_near
from pumice.engines.local.network.relay import Server, Stream, open_stream, relay
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.store.events import PortPublished, PortTaken, WarningIssued
from pumice.store.options import Publish
from pumice.store.run_errors import RunError

_RETRY: Final = 1.0  # seconds
_LOOK_AGAIN: Final = 10  # tries until the process that holds a port is looked for again


class PodConnector(Protocol):
    """A sandbox as far as published ports need it."""

    async def connect(self, pod: str, port: int) -> socket.socket: ...


class PublishingSandbox(PodConnector, Protocol):
    @property
    def own_network(self) -> bool: ...


class PublishedPort:
    """Connects the clients of a listener to a port of a pod, which need not exist yet."""

    def __init__(self, connector: PodConnector, pod: str, port: int, listener: socket.socket) -> None:
        self.pod = pod
        self.port = port
        self._connector = connector
        self.local_port: int = listener.getsockname()[1]
        self._server = Server(listener, self._serve)
        self.start = self._server.start
        self.close = self._server.close

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.local_port}"

    async def _serve(self, client: Stream) -> None:
        try:
            connection = await self._connector.connect(self.pod, self.port)
        except (OSError, StartError, SandboxError, RunError):
            # The pod does not exist yet, or does not listen: the client sees a failed connection, as in the pod.
            client.abort()
            return
        await relay(client, await open_stream(connection))


@asynccontextmanager
async def published_ports(
    sandbox: PublishingSandbox,
    job: str,
    ports: Sequence[Publish],
    emit: Callable[[PortPublished | PortTaken | WarningIssued], None],
) -> AsyncIterator[None]:
    """Publish ports of the pods of a job. One that is taken is published as soon as it is free."""
    async with AsyncExitStack() as stack:

        async def publish(each: Publish, listener: socket.socket) -> None:
            published = PublishedPort(sandbox, f"{job}-{each.pod}", each.port, listener)
            stack.push_async_callback(published.close)
            await published.start()
            emit(PortPublished(each.pod, each.port, published.address))

        async def publish_later(each: Publish, error: PortTakenError) -> None:
            why = ""
            for tries in count():
                if not tries % _LOOK_AGAIN and (found := await asyncio.to_thread(lambda: error.why)) != why:
                    why = found
                    emit(PortTaken(each.pod, each.port, f"{LOOPBACK}:{each.local}", why))
                await asyncio.sleep(_RETRY)
                with suppress(PortTakenError):
                    await publish(each, listen(each.local))
                    return

        for each in ports:
            if each.local and each.local == each.port and not sandbox.own_network:
                message = f"{each}: plain processes use the ports of this machine, so {each.local} is left to the pod"
                emit(WarningIssued(message))
                await publish(each, listen(0))
            elif each.local:
                try:
                    await publish(each, listen(each.local))
                except PortTakenError as error:
                    retrying = asyncio.create_task(publish_later(each, error))
                    stack.callback(retrying.cancel)
            else:
                # Plain processes share this machine's ports: a listener on the same number would take it from the pod.
                await publish(each, listen_near(each.port if sandbox.own_network else 0))
        yield
