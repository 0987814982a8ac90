"""HTTP/1.1 as far as an API server speaks it: bytes of a request out, bytes of an answer in. No IO.

Written by hand because a job of 5,000 pods is 5,000 requests: a general client spends more than twice the time of all
the rest, encryption included, on what no API server does, such as cookies, redirects and compression.
"""

from __future__ import annotations

from collections.abc import Mapping

# More than any API server sends; what exceeds it is no HTTP.
_LONGEST_HEAD = 1 << 16
_LONGEST_LINE = 1 << 12
_END_OF_HEAD = b"\r\n\r\n"
# What has no body, whatever the fields say.
_WITHOUT_BODY = frozenset({204, 304})
_FIRST_FINAL = 200


class ProtocolError(Exception):
    """What came is no HTTP/1.1."""


def encoded_fields(fields: Mapping[str, str]) -> bytes:
    """The lines of these fields. A line break in a value would begin a field that nobody meant."""
    for name, value in fields.items():
        if "\r" in value or "\n" in value or "\0" in value:
            raise ProtocolError(f"the value of {name} has a line break in it")
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode()


def encoded_request(method: str, target: str, fields: bytes, body: bytes | None) -> bytes:
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"not a path that can be asked for: {target!r}")
    start = f"{method} {target} HTTP/1.1\r\n".encode()
    if body is None:
        return b"%b%b\r\n" % (start, fields)
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (start, fields, len(body), body)


class AnswerReader:
    """Reads one answer. `status` is 0 until its head is there; `complete` when nothing of it is missing any more."""

    __slots__ = ("_fields", "_gap", "_in_trailer", "_left", "_mode", "_pieces", "_rest", "complete", "status")

    def __init__(self) -> None:
        self.status = 0
        self.complete = False
        self._fields = b""
        self._pieces: list[bytes] = []
        # What was received of a head or a line whose end is missing.
        self._rest = b""
        # "length", "chunked", or "rest" for a body that ends with the connection.
        self._mode = ""
        # Bytes that are missing of the body or of the present chunk, and of the line break behind the chunk.
        self._left = self._gap = 0
        self._in_trailer = False

    def field(self, name: str) -> str | None:
        """The value of a field of the head, in small letters."""
        start = self._fields.find(f"\r\n{name.lower()}:".encode())
        if start < 0:
            return None
        start += len(name) + 3
        end = self._fields.find(b"\r\n", start)
        return (self._fields[start:] if end < 0 else self._fields[start:end]).decode("latin-1").strip()

    @property
    def keeps_connection(self) -> bool:
        """Whether the connection can carry another request after this answer."""
        if not self.complete or self._mode == "rest" or not self._fields.startswith(b"http/1.1"):
            return False
        return "close" not in (self.field("connection") or "")

    def take(self) -> bytes:
        """What has arrived of the body since the last time."""
        pieces = self._pieces
        if len(pieces) == 1:
            return pieces.pop()
        self._pieces = []
        return b"".join(pieces)

    def feed(self, data: bytes) -> None:
        if self.complete:
            raise ProtocolError("something came that was not asked for")
        while not self.status:
            if self._rest:
                data = self._rest + data
            end = data.find(_END_OF_HEAD)
            if end < 0:
                if len(data) > _LONGEST_HEAD:
                    raise ProtocolError("the head of the answer is too long")
                self._rest = data
                return
            self._rest = b""
            self._read_head(data[:end].lower())
            data = data[end + len(_END_OF_HEAD) :]
        if self._mode == "chunked":
            self._read_chunks(data)
        else:
            self._read_plain(data)

    def feed_end(self) -> None:
        """The connection has ended, and nothing more will come."""
        if self.status and self._mode == "rest":
            self.complete = True
        if not self.complete:
            raise ProtocolError("the connection ended in the middle of the answer")

    def _read_head(self, head: bytes) -> None:
        if not head.startswith(b"http/1."):
            raise ProtocolError("the answer is not HTTP/1.1")
        try:
            status = int(head[9:12])
        except ValueError as error:
            raise ProtocolError("the answer has no status") from error
        if status < _FIRST_FINAL:
            return  # Only an announcement of the answer.
        self.status = status
        self._fields = head
        if "chunked" in (self.field("transfer-encoding") or ""):
            self._mode = "chunked"
            return
        length = "0" if status in _WITHOUT_BODY else self.field("content-length")
        if length is None:
            self._mode, self._left = "rest", -1
        elif length.isdigit():
            self._mode, self._left = "length", int(length)
        else:
            raise ProtocolError("the length of the answer is not a number")

    def _read_plain(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
        if self._mode == "length":
            self._left -= len(data)
            if self._left < 0:
                raise ProtocolError("the answer is longer than it says")
            self.complete = self._left == 0

    def _read_chunks(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, size = 0, len(data)
        while at < size and not self.complete:
            if self._left:
                piece = data[at : at + self._left]
                self._pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._gap = 2 if not self._left else 0
            elif self._gap:
                step = min(self._gap, size - at)
                at += step
                self._gap -= step
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    self._rest = data[at:]
                    if len(self._rest) > _LONGEST_LINE:
                        raise ProtocolError("a line of the answer is too long")
                    return
                self._read_line(data[at:end])
                at = end + 2
        if at < size:
            raise ProtocolError("the answer is longer than it says")

    def _read_line(self, line: bytes) -> None:
        """The size of the next chunk, or a line behind the last one."""
        if self._in_trailer:
            self.complete = not line
            return
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError as error:
            raise ProtocolError("a chunk of the answer has no size") from error
        if self._left < 0:
            raise ProtocolError("a chunk of the answer has no size")
        self._in_trailer = self._left == 0
