"""Messages between two processes over a Unix socket: one JSON object per line, with file descriptors attached.

A request is `{"id": 1, "do": "submit", ...}`; its answer has the same id, and `result` or `error`. Objects without an
id are announcements. `descriptors` is the number of file descriptors (SCM_RIGHTS) that belong to the object.

`Wire` never blocks unless it says so, and needs no event loop: job-init and its host helper use it as it is, programs
with asyncio through `async_wire.AsyncWire`.
"""

from __future__ import annotations

import array
import itertools
import json
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Message = dict[str, Any]

_MOST_DESCRIPTORS = 253  # in one message, as the kernel has it
_MOST_WAITING = 1024  # descriptors that no message has claimed yet
# Bytes received at once: most messages are short, and to allocate the memory for long ones takes longer than to receive
# a short one.
_SHORT, _LONG = 1 << 14, 1 << 18
_ROOM = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
# The descriptors are not inherited. Other systems have no such flag.
_NOT_INHERITED = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
# As plain numbers: the operators of enums are slow.
_RECEIVE, _CUT_OFF = _NOT_INHERITED | int(socket.MSG_DONTWAIT), int(socket.MSG_CTRUNC)


class WireError(Exception):
    """The other side sent something that is no message."""


class Format(NamedTuple):
    """How messages and errors become bytes. `limit` is the longest message, in bytes, that is received."""

    encode: Callable[[Message], bytes]
    decode: Callable[[bytes], Any]
    encode_error: Callable[[BaseException], Any]
    decode_error: Callable[[Any], Exception]
    limit: int


def encode_json(message: Message) -> bytes:
    return json.dumps(message).encode()


class Wire:
    """One end of a connected socket, blocking or not."""

    def __init__(self, connected: socket.socket, form: Format) -> None:
        self.socket = connected
        self.form = form
        self._received = bytearray()
        self._block = _SHORT
        self._searched = 0  # bytes received that have no end of a line
        self._descriptors: deque[int] = deque()  # received, of no message yet
        self._unsent = bytearray()
        self._sent = 0  # bytes, ever
        self._attached: deque[tuple[int, Sequence[int]]] = deque()  # unsent descriptors, by the byte they go with
        self._last_id = 0

    @property
    def unsent(self) -> int:
        """The number of bytes that `flush` has not sent yet."""
        return len(self._unsent)

    def put(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Add a message to those that `flush` sends. The descriptors are given away, and closed when they are sent."""
        if not descriptors:
            self._unsent += self.form.encode(message) + b"\n"
            return
        try:
            line = self.form.encode({**message, "descriptors": len(descriptors)}) + b"\n"
        except BaseException:
            close_all(descriptors)
            raise
        self._attached.append((self._sent + len(self._unsent), descriptors))
        self._unsent += line

    def put_encoded(self, line: bytes) -> None:
        """Add a message that is encoded already, with the end of its line."""
        self._unsent += line

    def flush(self) -> bool:
        """Send what the socket takes; return whether everything is sent. Raises OSError."""
        while self._unsent:
            attached: Sequence[int] = ()
            if self._attached and self._attached[0][0] == self._sent:
                attached = self._attached[0][1]
            # Descriptors go with the first byte of their message.
            later = [at for at, _ in itertools.islice(self._attached, 2) if at > self._sent]
            until = later[0] - self._sent if later else len(self._unsent)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", attached))] if attached else []
            try:
                with memoryview(self._unsent) as unsent, unsent[:until] as part:
                    count = self.socket.sendmsg([part], rights, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            if attached:
                self._attached.popleft()
                close_all(attached)
            del self._unsent[:count]
            self._sent += count
        return True

    def read(self) -> bool:
        """Receive once; False at the end of the connection. Raises WireError, OSError and BlockingIOError."""
        try:
            data, ancillary, flags, _ = self.socket.recvmsg(self._block, _ROOM, _RECEIVE)
        except ConnectionError:
            return False
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(content[: len(content) - len(content) % received.itemsize])
                self._descriptors.extend(received)
        if not _NOT_INHERITED:
            for descriptor in self._descriptors:
                os.set_inheritable(descriptor, False)
        self._block = _LONG if len(data) == self._block else _SHORT
        self._received += data
        if flags & _CUT_OFF or len(self._descriptors) > _MOST_WAITING:
            raise WireError("a message has too many descriptors")
        return bool(data)

    def take(self) -> tuple[Message, list[int]] | None:
        """Return the next message that is complete, and its descriptors; None if there is none. Raises WireError."""
        end = self._received.find(b"\n", self._searched)
        if max(end, len(self._received) if end < 0 else 0) > self.form.limit:
            raise WireError(f"a message has more than {self.form.limit >> 20} MiB")
        if end < 0:
            self._searched = len(self._received)
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        try:
            message = self.form.decode(line)
        except (ValueError, RecursionError) as error:
            raise WireError(f"a message is not a JSON object: {error}") from error
        if not isinstance(message, dict):
            raise WireError("a message is not a JSON object")
        if not isinstance(message.get("id"), int | None):
            raise WireError("the id of a message is not a number")
        count = message.pop("descriptors", 0)
        if not isinstance(count, int) or not 0 <= count <= len(self._descriptors):
            raise WireError(f"a message has {count} descriptors, and {len(self._descriptors)} came with it")
        return message, [self._descriptors.popleft() for _ in range(count)]

    def decode_error(self, plain: Any) -> Exception:
        """Return the error of an answer."""
        try:
            return self.form.decode_error(plain)
        except Exception as error:  # noqa: BLE001 - the other side may send anything
            return WireError(f"an error cannot be read: {type(error).__name__}: {error}")

    @property
    def has_message(self) -> bool:
        """Whether a message was received together with an earlier one: the socket is not readable for it."""
        return b"\n" in self._received

    def discard_unsent(self) -> None:
        self._unsent.clear()
        while self._attached:
            close_all(self._attached.popleft()[1])

    def close(self) -> None:
        self.socket.close()
        self.discard_unsent()
        close_all(self._descriptors)
        self._descriptors.clear()

    # --- the end of a process without event loop: these block --------------------------------------------------------

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message. Raises OSError."""
        self.put(message, descriptors)
        while not self.flush():
            self._wait(select.POLLOUT, None)

    def receive(self, seconds: float | None = None) -> tuple[Message, list[int]] | None:
        """Return the next message and its descriptors; None at the end. Raises WireError, OSError and TimeoutError."""
        while (found := self.take()) is None:
            self._wait(select.POLLIN, seconds)
            if not self.read():
                return None
        return found

    def _wait(self, event: int, seconds: float | None) -> None:
        poll = select.poll()
        poll.register(self.socket, event)
        if not poll.poll(None if seconds is None else seconds * 1000):
            raise TimeoutError

    def call(self, what: str, **fields: Any) -> tuple[Any, list[int]]:
        """Send a request and return the result, and its descriptors. Announcements before the answer are ignored.

        Raises what the other side raised, ConnectionResetError, WireError and OSError.
        """
        self._last_id += 1
        self.send({**fields, "id": self._last_id, "do": what})
        while (found := self.receive()) is not None:
            answer, descriptors = found
            if answer.get("id") != self._last_id:
                close_all(descriptors)
            elif "error" in answer:
                close_all(descriptors)
                raise self.decode_error(answer["error"])
            else:
                return answer.get("result"), descriptors
        raise ConnectionResetError("the connection ended before the answer")

    def serve(self, answer: Callable[[Message], tuple[Any, Sequence[int]]]) -> None:
        """Answer one request after the other, those without an id not, until the connection ends. Raises OSError."""
        while (found := self.receive()) is not None:
            request, received = found
            close_all(received)
            try:
                result, descriptors = answer(request)
            except Exception as error:  # noqa: BLE001 - one bad request must not end the process
                message, descriptors = {"error": self.form.encode_error(error)}, ()
            else:
                message = {"result": result}
            if "id" in request:
                self.send({"id": request["id"], **message}, descriptors)
            else:
                close_all(descriptors)


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
