"""A connection to the process of a run that receives descriptors: what asyncio reads from a socket comes without them.

It blocks. The client of a command in a pod waits for nothing but the streams and the end of the command.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from pumice.engines.local.daemon.line_protocol import PATIENCE, Hello, Message, own_hello, peer_uid, result_of
from pumice.engines.local.daemon.runtime_directory import socket_address
from pumice.engines.local.run_errors import ConnectionFailed

_MOST: Final = 16  # descriptors in one message


@dataclass(slots=True)
class DescriptorChannel:
    socket: socket.socket
    descriptors: deque[int] = field(default_factory=deque)  # received, in order
    _buffer: bytearray = field(default_factory=bytearray)
    _last_id: int = 0

    @classmethod
    def connect(cls, path: Path) -> Self:
        """Raises ConnectionFailed; FileNotFoundError or ConnectionRefusedError if no process listens."""
        opened = socket.socket(socket.AF_UNIX)
        try:
            with socket_address(path) as address:
                opened.connect(address)
            if peer_uid(opened) != os.getuid():
                raise ConnectionFailed(f"{path}: a process of another user listens there")
            opened.settimeout(PATIENCE)
            channel = cls(opened)
            channel.send({"hello": msgspec.to_builtins(own_hello())})
            try:
                peer = msgspec.convert((channel.receive() or {}).get("hello"), Hello)
            except (TimeoutError, msgspec.ValidationError) as error:
                raise ConnectionFailed("the other side does not say hello") from error
            peer.check()
            opened.settimeout(None)
        except BaseException:
            opened.close()
            raise
        return channel

    def send(self, message: Message) -> None:
        self.socket.sendall(msgspec.json.encode(message) + b"\n")

    def receive(self) -> Message | None:
        """Return the next object; None at the end of the connection."""
        while b"\n" not in self._buffer:
            try:
                data, descriptors, _, _ = socket.recv_fds(self.socket, 1 << 16, _MOST)
            except ConnectionError:
                return None
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            self.descriptors.extend(descriptors)
            if not data:
                return None
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"a message is not a JSON object: {error}") from error

    @property
    def has_message(self) -> bool:
        """Whether an object was received together with an earlier one: the socket is not readable for it."""
        return b"\n" in self._buffer

    def call(self, what: str, **fields: Any) -> Any:
        """Send a request and return the result. Raises RunError and ConnectionFailed."""
        self._last_id += 1
        self.send({**fields, "id": self._last_id, "do": what})
        while (answer := self.receive()) is not None:
            if answer.get("id") == self._last_id:
                return result_of(answer)
        raise ConnectionFailed("the connection ended before the answer")

    def close(self) -> None:
        self.socket.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()
