"""The protocol on the sockets of the service and of runs: one JSON object per line, at most 16 MiB.

Both sides check that the other one is a process of the same user, and begin with `hello`: a range of protocol numbers
and the version of Pumice. A request is `{"id": 1, "do": "submit", ...}`; the answer has the same id, and `result` or
`error` (`message`, `hint`; `problems` has them apart). Objects without an id are announcements.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.metadata
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from pumice.engines.local.daemon.runtime_directory import socket_address
from pumice.engines.local.run_errors import BY_NAME, ConnectionFailed, InvalidOption, RunError, VersionMismatch
from pumice.model.problem import Problem

PROTOCOLS: Final = (1, 1)  # the lowest and the highest that this version speaks
LIMIT: Final = 16 << 20
RETIRE: Final = "retire"  # end, so that another version can take over; every protocol has it
# Seconds for the first line of the other side. A busy processor or disk can delay a healthy process.
PATIENCE: Final = 30.0
_CREDENTIALS: Final = struct.Struct("3i")
_PRIVATE: Final = 0o600
_MOMENT: Final = 0.01

Message: TypeAlias = dict[str, Any]
Answer: TypeAlias = Callable[[Message], Awaitable[Any]]


class AnswerLostError(ConnectionFailed):
    """The other side ended before it answered: it may have done what was asked, or not."""


class SilentPeerError(ConnectionFailed):
    """The other process does not say hello: it hangs, or is not a process of Pumice."""


class RequestError(RunError):
    """The other side refused a request."""


def result_of(answer: Message) -> Any:
    """Return the result of an answer. Raises RunError."""
    if (error := answer.get("error")) is not None:
        kind = BY_NAME.get(str(error.get("kind")), RequestError)
        if problems := error.get("problems"):
            raise kind.of(msgspec.convert(problems, list[Problem]))
        raise kind(str(error.get("message", "")), str(error.get("hint", "")))
    return answer.get("result")


def _plain(error: RunError) -> Message:
    message, hint = (str(error.problem), error.hint) if len(error.problems) == 1 else (str(error), "")
    problems = [msgspec.to_builtins(problem) for problem in error.problems]
    return {"message": message, "hint": hint, "kind": type(error).__name__, "problems": problems}


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    protocol: tuple[int, int] = PROTOCOLS
    version: str = ""
    pid: int = 0
    serves: str = ""  # the state directory, or the uid of the run

    def common_protocol(self) -> int | None:
        """Return the highest protocol that both sides speak."""
        highest = min(self.protocol[1], PROTOCOLS[1])
        return highest if highest >= max(self.protocol[0], PROTOCOLS[0]) else None

    def check(self) -> None:
        """Raises VersionMismatch if there is no such protocol."""
        if self.common_protocol() is None:
            raise VersionMismatch(
                f"pumice {own_hello().version} cannot talk to pumice {self.version}"
                f" (protocols {_range(PROTOCOLS)} and {_range(self.protocol)})",
                "upgrade the older one: pip install --upgrade pumice",
            )


def encoded(message: Message) -> bytes:
    """Return the line of a message. Raises InvalidOption: a name of a file may have bytes that are no text."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError as error:
        text = error.object.encode("utf-8", "backslashreplace").decode()
        what = text if "/" in text else "a name or value"
        raise InvalidOption(f"{what}: is not UTF-8, so the run cannot be recorded", "rename it") from error


def own_hello(serves: str = "") -> Hello:
    return Hello(version=importlib.metadata.version("pumice"), pid=os.getpid(), serves=serves)


@dataclass(slots=True)
class Connection:
    """One side of a connection, after both sides said hello. They may have no protocol in common."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    peer: Hello = field(default_factory=Hello)
    _last_id: int = 0

    async def greet(self, own: Hello, patience: float | None = PATIENCE) -> None:
        """Exchange `hello` with the other side. Raises ConnectionFailed."""
        await self.send({"hello": msgspec.to_builtins(own)})
        try:
            async with asyncio.timeout(patience):
                first = await self.receive()
            if first is None:
                raise ConnectionResetError(errno.ECONNRESET, "the other side has ended")
            self.peer = msgspec.convert(first.get("hello"), Hello)
        except (TimeoutError, msgspec.ValidationError) as error:
            raise SilentPeerError("the other side does not say hello") from error

    async def send(self, message: Message) -> None:
        self.writer.write(encoded(message))
        await self.writer.drain()

    async def send_descriptors(self, message: Message, descriptors: Sequence[int]) -> None:
        """Send an object with descriptors attached, which `DescriptorChannel` receives."""
        # Not by the transport, so what that still has to send goes first.
        while self.writer.transport.get_write_buffer_size():  # noqa: ASYNC110 - the transport has no such event
            await asyncio.sleep(_MOMENT)
        line = msgspec.json.encode(message) + b"\n"
        with socket.socket(fileno=os.dup(self.writer.get_extra_info("socket").fileno())) as channel:
            while True:
                try:
                    socket.send_fds(channel, [line], list(descriptors))
                except BlockingIOError:
                    await asyncio.sleep(_MOMENT)
                else:
                    return

    async def receive(self) -> Message | None:
        """Return the next object; None at the end of the connection. Raises ConnectionFailed."""
        try:
            line = await self.reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except asyncio.LimitOverrunError as error:
            raise ConnectionFailed(f"a message has more than {LIMIT >> 20} MiB") from error
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"a message is not a JSON object: {error}") from error

    async def call(self, what: str, **fields: Any) -> Any:
        """Send a request and return the result. Raises RequestError, AnswerLostError and ConnectionFailed."""
        self._last_id += 1
        try:
            await self.send({**fields, "id": self._last_id, "do": what})
        except ConnectionError as lost:
            raise AnswerLostError("the connection ended before the request") from lost
        while (answer := await self.receive()) is not None:
            if answer.get("id") == self._last_id:
                return result_of(answer)
        raise AnswerLostError("the connection ended before the answer")

    def check_protocol(self) -> None:
        """Raises VersionMismatch."""
        self.peer.check()

    async def serve(self, answers: Mapping[str, Answer]) -> None:
        """Answer requests until the other side ends the connection. Without a common protocol only RETIRE is known."""
        known = answers if self.peer.common_protocol() is not None else {RETIRE: answers[RETIRE]}
        while (request := await self.receive()) is not None:
            answer: Message = {"id": request.get("id")}
            if (handler := known.get(str(request.get("do")))) is None:
                answer["error"] = {"message": f"unknown request {request.get('do')!r}", "hint": "upgrade Pumice"}
            else:
                try:
                    answer["result"] = await handler(request)
                except RunError as error:
                    answer["error"] = _plain(error)
            await self.send(answer)


@asynccontextmanager
async def connection_to(path: Path, patience: float = PATIENCE) -> AsyncIterator[Connection]:
    """Connect to the socket of a process of this user.

    Raises ConnectionFailed; FileNotFoundError or ConnectionRefusedError if no process listens, or if it just ended.
    """
    with socket_address(path) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=LIMIT)
    try:
        if peer_uid(writer.get_extra_info("socket")) != os.getuid():
            raise ConnectionFailed(f"{path}: a process of another user listens there")
        connection = Connection(reader, writer)
        try:
            await connection.greet(own_hello(), patience)
        except ConnectionError as error:
            raise ConnectionRefusedError(*error.args) from error
        yield connection
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def listen(path: Path, handler: Callable[[Connection], Awaitable[None]], serves: str) -> asyncio.Server:
    """Listen on a socket that only this user can connect to. A stale socket is replaced."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        try:
            if peer_uid(writer.get_extra_info("socket")) != os.getuid():
                return
            await connection.greet(own_hello(serves))
            await handler(connection)
        except (RunError, ConnectionError):
            # The client went away, or is no client: the connection ends.
            return
        except asyncio.CancelledError:
            # The process ends. Python 3.11 would print the cancelled task as an error.
            return
        finally:
            writer.close()

    return await asyncio.start_unix_server(accepted, sock=bound_socket(path), limit=LIMIT)


def bound_socket(path: Path) -> socket.socket:
    """Return a socket at the path that only this user can connect to; remove what is there.

    Its directory is closed to other users. Changing the umask would affect other threads.
    """
    path.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX)
    try:
        with socket_address(path) as address:
            found.bind(address)
        path.chmod(_PRIVATE)
    except OSError:
        found.close()
        raise
    return found


def peer_uid(peer: socket.socket) -> int:
    """Return the user of the process on the other side; -1 where the system does not say it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return os.getuid()  # the directory of the socket is closed to other users
    return int(_CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))[1])


def _range(protocols: tuple[int, int]) -> str:
    return str(protocols[0]) if protocols[0] == protocols[1] else f"{protocols[0]} to {protocols[1]}"
