"""The protocol of control sockets: one JSON object per line in both directions.

A client sends `{"op": NAME, ...}` and receives `{"ok": true, ...}` or `{"error": {...}}`. `hello` comes first, with the
range of protocol numbers that the client knows; the server answers with its own. After `events`, the server sends
`{"event": KIND, "data": ...}` until the run ends.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from pumice.engines.local.run_errors import NoSuchPodError, NotRunningError, RefusedError, RunError, SettingsError
from pumice.model.problem import Position, Problem

OLDEST: Final = 1
NEWEST: Final = 1
LONGEST_MESSAGE: Final = 16 << 20
_KINDS: Final[Mapping[str, type[RunError]]] = {
    each.__name__: each for each in (NoSuchPodError, NotRunningError, RefusedError, SettingsError, RunError)
}


class UnreachableError(RunError):
    """No process serves the control socket of the run."""


def encode(message: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Raises ValueError for anything but an object."""
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    if not isinstance(found, dict):
        raise TypeError("a message must be an object")
    return found


def encode_error(error: RunError) -> dict[str, Any]:
    kind = next((name for name, each in _KINDS.items() if isinstance(error, each)), "RunError")
    return {"kind": kind, "problems": msgspec.to_builtins(error.problems)}


def decode_error(plain: Mapping[str, Any]) -> RunError:
    problems = [
        Problem(str(each.get("message")), str(each.get("hint") or ""), msgspec.convert(each.get("where"), Position))
        for each in plain.get("problems") or [{"message": "unknown error", "where": {}}]
    ]
    return _KINDS.get(str(plain.get("kind")), RunError).of(problems)


def peer_is_same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this user."""
    if not hasattr(socket, "SO_PEERCRED"):
        # macOS: the mode of the directory keeps other users out.
        return True
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", data)[1] == os.getuid())


class ControlConnection:
    """A client's connection to the control socket of a run."""

    def __init__(self, path: Path, timeout: float | None = 10.0) -> None:
        """Raises UnreachableError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._buffer = b""
        try:
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # The path of a socket may have 107 bytes only.
                self._socket.connect(f"/proc/self/fd/{directory}/{path.name}")
            finally:
                os.close(directory)
            if not peer_is_same_user(self._socket):
                raise ConnectionRefusedError(111, "the socket belongs to another user", str(path))
            self.call("hello", protocol=[OLDEST, NEWEST])
        except OSError as error:
            self._socket.close()
            why = (error.strerror or str(error)).lower()
            raise UnreachableError(f"{path}: {why}", "the process of the run may have ended") from error

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the answer. Raises RunError if it is refused, OSError if the connection breaks."""
        self.send({"op": op, **fields})
        answer = self.receive()
        if "error" in answer:
            raise decode_error(answer["error"])
        return answer

    def send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        data = encode(message)
        if descriptors:
            sent = socket.send_fds(self._socket, [data], list(descriptors))
            data = data[sent:]
        self._socket.sendall(data)

    def receive(self) -> dict[str, Any]:
        """Return the next message. Raises ConnectionResetError at the end of the connection."""
        while b"\n" not in self._buffer:
            part = self._socket.recv(65536)
            if not part or len(self._buffer) > LONGEST_MESSAGE:
                raise ConnectionResetError(104, "the run closed the connection")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return decode(line)

    def settimeout(self, timeout: float | None) -> None:
        self._socket.settimeout(timeout)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
