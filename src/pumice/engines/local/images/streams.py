"""Streams of a layer's bytes, read once in bounded memory: counted, hashed and decompressed.

The tarfile module trusts the sizes in headers and would read that much at once; these streams refuse absurd sizes.
`members` reads a tar file member by member and does not mistake a broken header for the end.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Final, Protocol, Self, cast

from pumice.engines.local.images.errors import ImageError

CHUNK: Final = 1 << 18
# Long names and pax headers are read at once; useful ones are much shorter.
_MOST_AT_ONCE: Final = 1 << 24
# What decompressors raise for invalid data.
COMPRESSION_ERRORS: Final = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)
# These classes of tarfile are not public.
_BROKEN: Final = ("InvalidHeaderError", "TruncatedHeaderError")
_READ_AT_ONCE: Final = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Forward(io.RawIOBase):
    """A stream that only moves forward, with as much of a file's interface as tarfile needs."""

    def __init__(self, source: Bytes, *, hashed: bool = True) -> None:
        super().__init__()
        self._source = source
        self._position = 0
        self._hash = hashlib.sha256() if hashed else None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        # Only forward, which is all that tarfile needs.
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _MOST_AT_ONCE:
            raise ImageError("a header claims an impossible size")
        parts = []
        while size > 0:
            # A decompressor may return less than requested; only an empty result means the end.
            part = self._source.read(min(size, CHUNK))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        data = b"".join(parts)
        if self._hash is not None:
            self._hash.update(data)
        self._position += len(data)
        return data

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or offset < self._position:
            raise ImageError("a header points backwards")
        self._skip(offset)
        return self._position

    def _skip(self, offset: int) -> None:
        while self._position < offset and self.read(min(CHUNK, offset - self._position)):
            pass

    def digest(self) -> str:
        """Read to the end and return the digest of all bytes; empty if they are not hashed."""
        while self.read(CHUNK):
            pass
        return f"sha256:{self._hash.hexdigest()}" if self._hash is not None else ""


class Window:
    """A part of a file."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file = file
        self._position = start
        self._end = start + size

    def read(self, size: int, /) -> bytes:
        # Several windows share one file and its position.
        self._file.seek(self._position)
        data = self._file.read(min(size, self._end - self._position))
        self._position += len(data)
        return data

    def skip(self, size: int) -> int:
        """Skip `size` bytes, or all that are left; return how many."""
        size = min(size, self._end - self._position)
        self._position += size
        return size


class Skipping(Forward):
    """A forward stream that skips bytes without reading them."""

    def __init__(self, window: Window) -> None:
        super().__init__(window, hashed=False)
        self._window = window

    def _skip(self, offset: int) -> None:
        self._position += self._window.skip(offset - self._position)


def decompressed(source: Bytes) -> Bytes:
    """Return the decompressed stream. The first bytes determine the compression; file names may be wrong."""
    head = source.read(6)
    whole = _Joined(head, source)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=whole, mode="rb")
    if head.startswith(b"BZh"):
        return bz2.BZ2File(cast(IO[bytes], whole))
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(cast(IO[bytes], whole))
    if not head.startswith(b"\x28\xb5\x2f\xfd"):
        return whole
    try:
        module = importlib.import_module("compression.zstd")
    except ImportError:
        raise ImageError(
            "is compressed with zstd, which only Python 3.14 and later can read",
            "save the image again with gzip: `docker save`, or `skopeo copy --dest-compress-format gzip`",
        ) from None
    opener: Callable[..., Bytes] = module.ZstdFile
    return opener(whole)


class _Joined(io.RawIOBase):
    """Bytes that were read already, followed by the rest of the stream."""

    def __init__(self, head: bytes, rest: Bytes) -> None:
        super().__init__()
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._head:
            part, self._head = self._head[:size], self._head[size:]
            return part
        return self._rest.read(size)


def members(stream: Forward) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield each member with its archive. Read a member's data before advancing."""
    try:
        with tarfile.TarFile(fileobj=stream, mode="r", tarinfo=_Member) as archive:
            while (member := archive.next()) is not None:
                if member.size < 0:
                    raise ImageError(f"{member.name}: claims an impossible size")
                yield archive, member
                # tarfile keeps all members, which would take unbounded memory.
                archive.members = []  # type: ignore[attr-defined] # a public attribute that the stubs do not know
    except tarfile.TarError as error:
        raise ImageError(f"is damaged or cut short: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ImageError(f"is damaged: {error}") from None


class _Member(tarfile.TarInfo):
    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Return the next header. Garbage is an error, while tarfile takes it for the end."""
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            # Other errors mean the end of the file, with or without an end marker.
            if type(error).__name__ in _BROKEN:
                raise ImageError(f"is damaged or cut short: {error}") from None
            raise

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        """Process a header. tarfile's own entry point for subclasses; newer versions read long headers in parts."""
        if self.type in _READ_AT_ONCE and self.size > _MOST_AT_ONCE:
            raise ImageError("a header claims an impossible size")
        return cast(Self, super()._proc_member(archive))  # type: ignore[misc] # the stubs do not know it
