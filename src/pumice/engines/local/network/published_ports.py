"""Publishes ports of pods on 127.0.0.1 of the host (`--publish`, `pumice forward`), and says who holds a taken one."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from pumice.engines.local.network.relay import Server, Stream, open_stream, relay
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.model.problem import Position, Problem
from pumice.model.text import escaped
from pumice.store.events import PortPublished, PortTaken, WarningIssued
from pumice.store.options import Publish
from pumice.store.run_errors import InvalidOption, RunError

_RETRY: Final = 1.0  # seconds
_LOOK_AGAIN: Final = 10  # tries until the process that holds a port is looked for again
LOOPBACK: Final = "127.0.0.1"
_NOT_FREE: Final = (errno.EADDRINUSE, errno.EACCES)
_LISTENS: Final = "0A"  # the state of a socket
_SOCKET: Final = re.compile(r"socket:\[([0-9]+)\]")


class PortTakenError(Exception):
    """A port of this machine is taken, or this user may not open it."""

    def __init__(self, port: int, error: OSError) -> None:
        super().__init__(port, error)
        self.port = port
        self.is_denied = error.errno == errno.EACCES

    @property
    def why(self) -> str:
        """Return who has the port, which is looked for now."""
        if self.is_denied:
            return f"port {self.port} needs a right that this user does not have"
        return f"port {self.port} is taken by {_holder(self.port) or 'another process'}"

    @property
    def hint(self) -> str:
        if not self.is_denied:
            return "choose another one"
        first = 1024  # that every user may open
        with suppress(OSError, ValueError):
            first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text(encoding="ascii"))
        return f"choose {first} or more"


def listen(port: int) -> socket.socket:
    """Listen on a port of 127.0.0.1; 0 is any free one. Raises PortTakenError."""
    # Unlike create_server, do not set SO_REUSEADDR, so that a port in use on another address counts as taken.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno not in _NOT_FREE:
            raise
        raise PortTakenError(port, error) from error
    return listener


def listen_near(port: int) -> socket.socket:
    """Listen on a port of 127.0.0.1 or, if it is taken, on any other."""
    try:
        return listen(port)
    except PortTakenError:
        return listen(0)


def check_ports(ports: Sequence[Publish]) -> None:
    """Raises InvalidOption for ports of this machine that are taken, or that this user may not open."""
    problems = []
    for each in ports:
        try:
            if each.local:
                listen(each.local).close()
        except PortTakenError as error:
            problems.append(Problem(f"{each}: {error.why}", error.hint, Position(option="publish")))
    if problems:
        raise InvalidOption.of(problems)


def _holder(port: int) -> str:
    """Return the process that listens on a port: `python3 (pid 123)`; empty if it cannot be known."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                    sockets.add(words[9])  # its inode
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sockets & set(_sockets(process)):
                name = (process / "comm").read_text("utf-8", "backslashreplace").strip()
                return f"{escaped(name)} (pid {process.name})"
    return ""


def _sockets(process: Path) -> Iterator[str]:
    """Yield the inodes of the sockets of a process. Raises OSError for one of another user."""
    with os.scandir(process / "fd") as descriptors:
        for each in descriptors:
            with suppress(OSError):
                if match := _SOCKET.fullmatch(str(Path(each.path).readlink())):
                    yield match[1]


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
