"""The sockets of the service and of runs: who may connect, `hello`, with which both sides begin, and errors as data.

Both sides check that the other one is a process of the same user. `hello` has a range of protocol numbers and the
version of Pumice. What follows are requests, answers and announcements (`rpc/wire.py`), each of at most 16 MiB.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.diagnosis.why import Shortage
from pumice.engines.local.daemon.runtime_files import socket_address
from pumice.engines.local.rpc.async_wire import AsyncWire
from pumice.engines.local.rpc.wire import Format, Message, Wire, WireError
from pumice.model import VERSION
from pumice.model.problem import Option, Problem
from pumice.model.pumice_error import PumiceError
from pumice.store.run_errors import (
    BY_NAME,
    ConnectionFailed,
    DoesNotFit,
    InvalidOption,
    RefusedError,
    RunError,
    VersionMismatch,
)
from pumice.store.settings import ConsentError, HostAccess

PROTOCOLS: Final = (2, 2)  # the lowest and the highest that this version speaks
RETIRE: Final = "retire"  # end, so that another version can take over; every protocol has it
# Seconds for the first line of the other side. A busy processor or disk can delay a healthy process.
PATIENCE: Final = 30.0
_LONGEST_MESSAGE: Final = 16 << 20
_CREDENTIALS: Final = struct.Struct("3i")
_TIME: Final = struct.Struct("ll")  # seconds and microseconds
_PRIVATE: Final = 0o600
_MOST_WAITING: Final = 100  # connections
_PAUSE: Final = 1.0  # seconds without accepting, when this process has no descriptor left
_ERRORS: Final[Mapping[str, type[RunError]]] = {**BY_NAME, ConsentError.__name__: ConsentError}
# Errors that say that memory, threads or the disk run out.
_SYSTEM_ERRORS: Final[Mapping[str, type[Exception]]] = {
    each.__name__: each for each in (ImportError, MemoryError, OSError, RuntimeError)
}


def encode_error(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data. What is not the user's mistake carries its traceback."""
    if isinstance(error, BaseExceptionGroup):
        return encode_error(error.exceptions[0])
    if isinstance(error, PumiceError):
        plain: dict[str, Any] = {"kind": type(error).__name__, "problems": msgspec.to_builtins(list(error.problems))}
        if isinstance(error, ConsentError):
            plain["accesses"] = [[str(each.path), each.read_only, each.origin] for each in error.accesses]
        if isinstance(error, DoesNotFit):
            plain["shortages"] = msgspec.to_builtins(list(error.shortages))
        if isinstance(error, RefusedError):
            plain["remedy"] = msgspec.to_builtins(error.remedy)
        return plain
    trace = "".join(traceback.format_exception(error))
    kind = next((each.__name__ for each in _SYSTEM_ERRORS.values() if isinstance(error, each)), "")
    if isinstance(error, OSError):
        # The name of a file may contain any bytes.
        name = None if error.filename is None else str(error.filename).encode(errors="replace").decode()
        return {"kind": kind, "args": [error.errno, error.strerror, name], "trace": trace}
    return {"kind": kind, "args": [str(error) if kind else f"{type(error).__name__}: {error}"], "trace": trace}


def decode_error(plain: Mapping[str, Any]) -> Exception:
    """Return the error of plain data."""
    if "problems" not in plain:
        error = _SYSTEM_ERRORS.get(str(plain["kind"]), RuntimeError)(*plain["args"])
        error.add_note(str(plain["trace"]))
        return error
    found = _ERRORS.get(str(plain["kind"]), RunError).of(msgspec.convert(plain["problems"], list[Problem]))
    if isinstance(found, ConsentError):
        found.accesses = tuple(HostAccess(Path(path), *rest) for path, *rest in plain["accesses"])
    if isinstance(found, DoesNotFit):
        found.shortages = msgspec.convert(plain["shortages"], tuple[Shortage, ...])
    if isinstance(found, RefusedError) and plain["remedy"] is not None:
        found.remedy = msgspec.convert(plain["remedy"], Option)
    return found


class AnswerLostError(ConnectionFailed):
    """The other side ended before it answered: it may have done what was asked, or not."""


class SilentPeerError(ConnectionFailed):
    """The other process does not say hello: it hangs, or is not a process of Pumice."""


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


def own_hello(serves: str = "") -> Hello:
    return Hello(version=VERSION, pid=os.getpid(), serves=serves)


def encode(message: Message) -> bytes:
    """Return a message as JSON. Raises InvalidOption: a name of a file may have bytes that are no text."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError as error:
        text = error.object.encode("utf-8", "backslashreplace").decode()
        what = text if "/" in text else "a name or value"
        raise InvalidOption(f"{what}: is not UTF-8, so the run cannot be recorded", "rename it") from error


def _decode(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise ValueError(error) from error


FORMAT: Final = Format(encode, _decode, encode_error, decode_error, _LONGEST_MESSAGE)


class Connection(AsyncWire):
    """One side of a connection, after both sides said hello. They may have no protocol in common."""

    def __init__(self, connected: socket.socket, lost: Callable[[], Exception] | None = None) -> None:
        super().__init__(
            Wire(connected, FORMAT), lost or (lambda: AnswerLostError("the connection ended before the answer"))
        )
        self.peer = Hello()

    async def greet(self, own: Hello, patience: float | None = PATIENCE) -> None:
        """Exchange `hello` with the other side. Raises ConnectionFailed."""
        self.notify({"hello": msgspec.to_builtins(own)})
        try:
            async with asyncio.timeout(patience):
                first = await self.receive()
            if first is None:
                raise ConnectionResetError(errno.ECONNRESET, "the other side has ended")
            if "error" in first:
                raise self._wire.decode_error(first["error"])
            self.peer = msgspec.convert(first.get("hello"), Hello)
        except (TimeoutError, msgspec.ValidationError) as error:
            raise SilentPeerError("the other side does not say hello") from error

    async def receive(self) -> Message | None:
        """Return the next message that is no awaited answer; None at the end. Raises ConnectionFailed."""
        try:
            return await super().receive()
        except WireError as error:
            raise ConnectionFailed(str(error)) from error

    async def serve_requests(self, answer: Callable[[Message], Awaitable[Any]]) -> None:
        """Answer requests until the other side ends the connection. Without a common protocol only RETIRE is known."""

        async def answer_known(request: Message) -> Any:
            if self.peer.common_protocol() is None and request.get("do") != RETIRE:
                raise unknown_request(request)
            return await answer(request)

        await self.serve(answer_known)


def unknown_request(request: Message) -> RunError:
    return RunError(f"unknown request {request.get('do')!r}", "upgrade Pumice")


@asynccontextmanager
async def connection_to(path: Path, patience: float = PATIENCE) -> AsyncIterator[Connection]:
    """Connect to the socket of a process of this user.

    Raises ConnectionFailed; FileNotFoundError or ConnectionRefusedError if no process listens, or if it just ended.
    """
    connection = Connection(connect(path, patience))
    try:
        try:
            await connection.greet(own_hello(), patience)
        except ConnectionError as error:
            raise ConnectionRefusedError(*error.args) from error
        yield connection
    finally:
        await connection.finish()


def connect(path: Path, patience: float = PATIENCE) -> socket.socket:
    """Connect to a process of this user. Raises ConnectionFailed, FileNotFoundError and ConnectionRefusedError."""
    connected = socket.socket(socket.AF_UNIX)
    try:
        # It blocks only if many others wait for a process that accepts none of them. With a timeout of Python it would
        # not wait, but fail at once.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(*divmod(int(patience * 1e6), 1_000_000)))
        with socket_address(path) as address:
            connected.connect(address)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(0, 0))
        if peer_uid(connected) != os.getuid():
            raise ConnectionFailed(f"{path}: a process of another user listens there")
    except BlockingIOError as error:
        connected.close()
        raise SilentPeerError("the other side accepts no connection") from error
    except BaseException:
        connected.close()
        raise
    return connected


def greeted_wire(path: Path) -> Wire:
    """Connect to a process of this user, for a program without event loop. Raises what `connection_to` raises."""
    wire = Wire(connect(path), FORMAT)
    try:
        with suppress(ConnectionError):  # what the other side sent before it ended is still to be read
            wire.send({"hello": msgspec.to_builtins(own_hello())})
        if (first := wire.receive(PATIENCE)) is None:
            raise ConnectionResetError(errno.ECONNRESET, "the other side has ended")
        msgspec.convert(first[0].get("hello"), Hello).check()
    except BaseException as error:
        wire.close()
        if isinstance(error, ConnectionError):
            raise ConnectionRefusedError(*error.args) from error
        if isinstance(error, WireError):
            raise ConnectionFailed(str(error)) from error
        if isinstance(error, TimeoutError | msgspec.ValidationError):
            raise SilentPeerError("the other side does not say hello") from error
        raise
    return wire


class Listener:
    """A socket that only this user can connect to."""

    def __init__(self, path: Callable[[], Path], handler: Callable[[Connection], Awaitable[None]], serves: str) -> None:
        self._path = path
        self._handler = handler
        self._serves = serves
        self._socket: socket.socket | None = None
        self._accepted: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    async def keep(self) -> None:
        """Listen, and listen again when the socket is gone: a logout removes the runtime directory.

        Raises OSError and RefusedError.
        """
        path = self._path()
        if self._socket is None or not await asyncio.to_thread(os.path.lexists, path):
            opened = bound_socket(path)
            opened.listen(_MOST_WAITING)
            opened.setblocking(False)
            self._stop()
            self._socket = opened
            asyncio.get_running_loop().add_reader(opened, self._accept, opened)

    def close(self) -> None:
        """Accept no further connection, and remove the socket."""
        if self._socket is not None:
            self._stop()
            with suppress(OSError, RunError):
                self._path().unlink(missing_ok=True)

    def _stop(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            loop.call_exception_handler({"message": "a connection cannot be accepted", "exception": error})

            def again() -> None:
                if listening is self._socket:
                    loop.add_reader(listening, self._accept, listening)

            loop.remove_reader(listening)
            loop.call_later(_PAUSE, again)
            return
        task = loop.create_task(self._serve(accepted))
        self._accepted.add(task)
        task.add_done_callback(self._accepted.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        if peer_uid(accepted) != os.getuid():
            accepted.close()
            return
        connection = Connection(accepted)
        try:
            await connection.greet(own_hello(self._serves))
            await self._handler(connection)
        except (RunError, ConnectionError):
            # The client went away, or is no client: the connection ends.
            return
        finally:
            connection.close()


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
