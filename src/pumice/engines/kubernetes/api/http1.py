"""HTTP/1.1 as far as an API server speaks it: encodes requests and parses responses. No IO.

Written by hand because a job of 5,000 pods is 5,000 requests, and aiohttp's client takes about three times the
processor time, encryption included (`benchmarks/http_client.py`), for cookies, redirects, compression and other things
that no API server needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from pumice.model.pumice_error import PumiceError

# A name may have several values, each of which is a line.
Headers: TypeAlias = Mapping[str, str | tuple[str, ...]]

# More than any API server sends.
_MAX_HEAD = 1 << 16
_MAX_LINE = 1 << 12
_END_OF_HEAD = b"\r\n\r\n"
# These have no body, whatever the headers say.
_WITHOUT_BODY = frozenset({204, 304})
_FIRST_FINAL = 200
# Python's own number parsers accept signs, underscores, prefixes, white space and digits of other scripts.
_STATUS: Final = re.compile(rb"http/1\.[01] ([1-9][0-9]{2})(?: |\r|\Z)")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_CHUNK_SIZE: Final = re.compile(rb"[0-9a-fA-F]{1,15}")
_LINE_BREAK: Final = b"\r\n"


class ProtocolError(PumiceError):
    """The server sent something that is not HTTP/1.1."""


def header_lines(headers: Headers) -> list[tuple[str, str]]:
    """Return the headers; those of several values, such as the groups of an impersonation, several times."""
    return [(name, each) for name, value in headers.items() for each in ((value,) if isinstance(value, str) else value)]


def encode_headers(headers: Headers) -> bytes:
    """Return the header lines. A line break in a value is refused: it would start another header."""
    lines = header_lines(headers)
    for name, value in lines:
        if "\r" in value or "\n" in value or "\0" in value:
            raise ProtocolError(f"the value of {name} contains a line break")
    return "".join(f"{name}: {value}\r\n" for name, value in lines).encode()


def encode_request(method: str, target: str, headers: bytes, body: bytes | None) -> bytes:
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"not a valid request path: {target!r}")
    start = f"{method} {target} HTTP/1.1\r\n".encode()
    if body is None:
        return b"%b%b\r\n" % (start, headers)
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (start, headers, len(body), body)


class ResponseReader:
    """Parses one response. `status` is 0 until the head has arrived; `complete` is set at the end of the body."""

    __slots__ = ("_gap", "_head", "_in_trailer", "_left", "_mode", "_pieces", "_rest", "complete", "status")

    def __init__(self) -> None:
        self.status = 0
        self.complete = False
        self._head = b""
        self._pieces: list[bytes] = []
        # The received part of a head or a line whose end is missing.
        self._rest = b""
        # "length", "chunked", or "rest" for a body that ends with the connection.
        self._mode = ""
        # Bytes missing of the body or of the current chunk, and of the line break after the chunk.
        self._left = self._gap = 0
        self._in_trailer = False

    def header(self, name: str) -> str | None:
        """Return the value of a header in lower case."""
        start = self._head.find(f"\r\n{name.lower()}:".encode())
        if start < 0:
            return None
        start += len(name) + 3
        end = self._head.find(b"\r\n", start)
        return (self._head[start:] if end < 0 else self._head[start:end]).decode("latin-1").strip()

    @property
    def keeps_connection(self) -> bool:
        """Whether the connection can carry another request after this response."""
        if not self.complete or self._mode == "rest" or not self._head.startswith(b"http/1.1"):
            return False
        return "close" not in (self.header("connection") or "")

    def take(self) -> bytes:
        """Return the part of the body that has arrived since the last call."""
        pieces = self._pieces
        if len(pieces) == 1:
            return pieces.pop()
        self._pieces = []
        return b"".join(pieces)

    def feed(self, data: bytes) -> None:
        if self.complete:
            raise ProtocolError("the server sent data without a request")
        while not self.status:
            if self._rest:
                data = self._rest + data
            end = data.find(_END_OF_HEAD)
            if end < 0:
                if len(data) > _MAX_HEAD:
                    raise ProtocolError("the head of the response is too long")
                self._rest = data
                return
            self._rest = b""
            self._read_head(data[:end].lower())
            data = data[end + len(_END_OF_HEAD) :]
        if self._mode == "chunked":
            self._read_chunks(data)
            return
        if data:
            self._pieces.append(data)
        if self._mode == "length":
            self._left -= len(data)
            if self._left < 0:
                raise ProtocolError("the response is longer than announced")
            self.complete = self._left == 0

    def feed_end(self) -> None:
        """Note that the connection has ended."""
        if self.status and self._mode == "rest":
            self.complete = True
        if not self.complete:
            raise ProtocolError("the connection ended in the middle of the response")

    def _read_head(self, head: bytes) -> None:
        if not head.startswith(b"http/1."):
            raise ProtocolError("the response is not HTTP/1.1")
        match = _STATUS.match(head)
        if match is None:
            raise ProtocolError("the response has no status")
        status = int(match[1])
        if status < _FIRST_FINAL:
            return  # An interim response; the final one follows.
        self.status = status
        self._head = head
        encoding = self.header("transfer-encoding")
        if encoding is not None:
            if encoding != "chunked":
                raise ProtocolError("the transfer encoding of the response is not chunked")
            self._mode = "chunked"
            return
        length = "0" if status in _WITHOUT_BODY else self.header("content-length")
        if length is None:
            self._mode, self._left = "rest", -1
        elif _LENGTH.fullmatch(length) and (status in _WITHOUT_BODY or head.count(b"\r\ncontent-length:") == 1):
            self._mode, self._left = "length", int(length)
        else:
            raise ProtocolError("the length of the response is not one number")

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
                if data[at] != _LINE_BREAK[-self._gap]:
                    raise ProtocolError("a chunk of the response is longer than announced")
                at += 1
                self._gap -= 1
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    self._rest = data[at:]
                    if len(self._rest) > _MAX_LINE:
                        raise ProtocolError("a line of the response is too long")
                    return
                self._read_line(data[at:end])
                at = end + 2
        if at < size:
            raise ProtocolError("the response is longer than announced")

    def _read_line(self, line: bytes) -> None:
        """Read the size of the next chunk, or a line after the last chunk."""
        if self._in_trailer:
            self.complete = not line
            return
        digits = line.partition(b";")[0]
        if not _CHUNK_SIZE.fullmatch(digits):
            raise ProtocolError("a chunk of the response has no size")
        self._left = int(digits, 16)
        self._in_trailer = self._left == 0
