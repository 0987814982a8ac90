"""A command in a container of a cluster, with the streams of this process or on its terminal.

Its connection is served on an event loop of its own thread, so that the caller may read and write without one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import socket
from contextlib import suppress
from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct

from pumice.client.pod_access import NotStartedError
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.pod_socket import PodSocket
from pumice.model.problem import Command
from pumice.store.run_errors import ConnectionFailed

_BLOCK: Final = 1 << 15
# Seconds for the rest of the output once the command has ended: a process in the background may keep it open.
_REST: Final = 5.0
_UNSAID: Final = 1.0
_NO_END: Final = b"pumice: this API server, before Kubernetes 1.30, does not tell the command that the input ended\n"

_EXIT_CODE: Final = "ExitCode"
_NOT_FOUND: Final = re.compile("executable file not found|no such file or directory", re.IGNORECASE)
# A runtime may name itself before, and quotes the identifier of the container there.
_NAMED: Final = re.compile(r'.*"([^"]+)": ')
_NOT_EXECUTABLE: Final = re.compile(r"permission denied|exec format error|is a directory", re.IGNORECASE)
# As a shell's.
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class Stream(IntEnum):
    INPUT = 0
    OUTPUT = 1
    ERROR = 2
    STATUS = 3
    SIZE = 4


class PodStreams:
    """`descriptors` are this side of its terminal, or of its input, output and error."""

    def __init__(self, opened: PodSocket, what: str, loop: asyncio.AbstractEventLoop, *, on_terminal: bool) -> None:
        self._socket = opened
        self._what = what  # the container's pod: RUN/TASK-INDEX
        self._loop = loop
        self._on_terminal = on_terminal
        self._end: CommandEnd | None = None
        self._failure = ""
        self._ended_reader, self._ended_writer = os.pipe()
        pairs = [socket.socketpair() for _ in range(1 if on_terminal else 3)]
        self.descriptors = [ours.detach() for ours, _ in pairs]
        self._streams = [theirs for _, theirs in pairs]  # its terminal; or its input, output and error
        for each in self._streams:
            each.setblocking(False)
        self._finishing: asyncio.Task[None] | None = None
        self._task = asyncio.run_coroutine_threadsafe(self._serve(), loop)

    # --- for the caller, on any thread ----------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._ended_reader

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    def end_code(self) -> int | None:
        """Wait for the end; return the exit code, None if the connection was lost before.

        Raises NotStartedError, ConnectionFailed.
        """
        with suppress(asyncio.CancelledError, concurrent.futures.CancelledError):
            self._task.result()
        return None if self._end is None else self._end.code(self._what)

    def code(self) -> int:
        """Wait for the end; return the exit code. Raises NotStartedError, ConnectionFailed."""
        if (code := self.end_code()) is None:
            raise connection_lost(self._what, self._failure)
        return code

    def resize(self, size: tuple[int, int]) -> None:
        async def send() -> None:
            with suppress(ApiError):
                await self._socket.send(Stream.SIZE, size_message(size))

        asyncio.run_coroutine_threadsafe(send(), self._loop)

    def take_descriptors(self) -> tuple[int, ...]:
        """Return the descriptors; the caller closes them."""
        taken = tuple(self.descriptors)
        self.descriptors.clear()
        return taken

    def close_stream(self, descriptor: int) -> None:
        os.close(descriptor)
        self.descriptors.remove(descriptor)

    def close(self) -> None:
        """End the connection. A command on a terminal gets SIGHUP; another one ends when it uses its streams."""
        for each in self.descriptors:
            os.close(each)
        self.descriptors.clear()
        self._task.cancel()
        os.close(self._ended_reader)

    # --- on the loop ----------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        sending = asyncio.create_task(self._send_input())
        try:
            await self._receive()
        except ApiError as error:
            self._failure = f": {error}"
        finally:
            # Whoever closes this may do it at any time.
            self._finishing = asyncio.create_task(self._finish(sending))
            await asyncio.shield(self._finishing)

    async def _finish(self, sending: asyncio.Task[None]) -> None:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        for each in self._streams:
            each.close()
        await self._socket.close()
        os.close(self._ended_writer)

    async def _receive(self) -> None:
        while True:
            limit = None if self._end is None else _REST
            try:
                async with asyncio.timeout(limit):
                    found = await self._socket.receive()
            except TimeoutError:
                return
            if found is None:
                return
            stream, data = found
            if stream == Stream.STATUS:
                self._end = read_end(data) or self._end
            elif data:
                await self._pass_on(stream, data)

    async def _pass_on(self, stream: int, data: bytes) -> None:
        """Write output. Nobody may read it any more."""
        if stream in (Stream.OUTPUT, Stream.ERROR):
            with suppress(OSError):
                await self._loop.sock_sendall(self._streams[0 if self._on_terminal else stream], data)

    async def _send_input(self) -> None:
        with suppress(ApiError, OSError):
            while data := await self._loop.sock_recv(self._streams[0], _BLOCK):
                await self._socket.send(Stream.INPUT, data)
            if self._on_terminal:
                return
            await self._socket.end(Stream.INPUT)
            if not self._socket.says_ends:
                await asyncio.sleep(_UNSAID)
                await self._pass_on(Stream.ERROR, _NO_END)


def size_message(size: tuple[int, int]) -> bytes:
    return msgspec.json.encode({"Height": size[0], "Width": size[1]})


# --- the end ----------------------------------------------------------------------------------------------------------


class _Details(Struct, frozen=True):
    causes: list[dict[str, str]] | None = None


class _Status(Struct, frozen=True):
    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


def connection_lost(what: str, why: str = "") -> ConnectionFailed:
    """Return the error of a command, `RUN/TASK-INDEX`, whose end is not known."""
    run, _, pod = what.rpartition("/")
    hint = ("the command may still run: ", Command("exec", run, pod, ("ps",)), " shows it")
    return ConnectionFailed(f"{what}: the connection was lost{why}", hint)


class CommandEnd(Struct, frozen=True):
    """Its exit code, or why it could not be started."""

    exit_code: int
    failure: str = ""

    def code(self, what: str) -> int:
        """Raises NotStartedError, with the exit code of a shell, if the command is missing; else ConnectionFailed."""
        if not self.failure:
            return self.exit_code
        named = _NAMED.match(" ".join(self.failure.split()))
        program = named[1] if named else "the command"
        if _NOT_FOUND.search(self.failure):
            raise NotStartedError(f"{what}: {program}: not found in the container", "CommandNotFound", NOT_FOUND)
        if _NOT_EXECUTABLE.search(self.failure):
            raise NotStartedError(f"{what}: {program}: cannot be executed", "NotExecutable", NOT_EXECUTABLE)
        raise ConnectionFailed(f"{what}: {self.failure}")


def read_end(data: bytes) -> CommandEnd | None:
    """Return None for what is no Status: an older server sends nothing else, or an empty message."""
    try:
        status = msgspec.json.decode(data, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace").strip()
        return CommandEnd(1, text) if text else None
    if status.status == "Success":
        return CommandEnd(0)
    causes = status.details.causes if status.details is not None else None
    for cause in causes or ():
        if cause.get("reason") == _EXIT_CODE and cause.get("message", "").isdecimal():
            return CommandEnd(int(cause["message"]))
    return CommandEnd(1, status.message or status.reason or "it failed")
