"""A command in a running container, with streams that its caller reads and writes while it runs.

The container never gets a descriptor of the caller: its command has pipes, or a terminal of the container, and the
caller the other ends. What a hostile container does with its ends reaches nothing but these.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pumice.engines.local.rpc.wire import Wire, WireError, close_all
from pumice.engines.local.sandbox import protocol
from pumice.engines.local.sandbox.sandbox_errors import COPY, COPY_DENIED, TERMINAL, StartError
from pumice.engines.local.sandbox.tree_stream import Copy, StreamError, is_denied, reason_of

_MAX_OUTPUT: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Entered:
    """`descriptors` are the caller's: of the terminal, or of standard input, output and error. The caller closes them.

    `code` is the exit code (128 + n after signal n), or StartError.
    """

    descriptors: Sequence[int]
    code: asyncio.Task[int]
    cancel: Callable[[], Awaitable[None]]  # kills the command

    def close(self) -> None:
        close_all(self.descriptors)


@dataclass(frozen=True, slots=True)
class Program:
    argv: Sequence[str]
    env: Mapping[str, str]


def stream_pipes() -> tuple[list[int], list[int]]:
    """Return the caller's ends and the command's ends of three pipes: standard input, output and error."""
    (stdin, writer), (stdout_reader, stdout), (stderr_reader, stderr) = os.pipe(), os.pipe(), os.pipe()
    for descriptor in (stdin, stdout, stderr):
        # The command may open it again, as /dev/stdout, as another user.
        os.fchmod(descriptor, 0o666)
    return [writer, stdout_reader, stderr_reader], [stdin, stdout, stderr]


def terminal_channel() -> tuple[socket.socket, int]:
    """Return both ends of the channel through which a container sends its terminal."""
    ours, theirs = socket.socketpair()
    return ours, theirs.detach()


async def received_terminal(channel: socket.socket, ended: asyncio.Task[int]) -> int:
    """Return the descriptor of the terminal. Raises StartError if the command cannot be started."""
    loop, wire = asyncio.get_running_loop(), Wire(channel, protocol.FORMAT)
    readable = asyncio.Event()
    loop.add_reader(channel, readable.set)
    waiting = asyncio.create_task(readable.wait())
    try:
        await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
        received = None
        with suppress(OSError, WireError):
            wire.read()
            received = wire.take()
    finally:
        loop.remove_reader(channel)
        waiting.cancel()
        wire.close()
    descriptors = [] if received is None else received[1]
    if len(descriptors) == 1 and os.isatty(descriptors[0]):
        return descriptors[0]
    close_all(descriptors)
    await ended
    raise StartError(TERMINAL, "the container sent no terminal")


def set_size(terminal: int, size: tuple[int, int]) -> None:
    """`size` is lines and columns. The processes in the foreground of the terminal get SIGWINCH."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


class CollectedOutput(asyncio.Protocol):
    """Collects the output of exec; what exceeds the limit is dropped."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data[: _MAX_OUTPUT - len(self.data)]

    def connection_lost(self, _: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def copied_here(copy: Copy) -> Entered:
    """Copy as this process, where pods have the same rights. The copy ends with its streams."""
    ours, theirs = stream_pipes()

    def run() -> int:
        try:
            return copy.run(*theirs)
        except (OSError, StreamError) as error:
            raise StartError(COPY_DENIED if is_denied(error) else COPY, reason_of(error)) from error
        finally:
            close_all(theirs)

    async def nothing() -> None:
        return

    return Entered(ours, asyncio.create_task(asyncio.to_thread(run)), nothing)
