"""The files of an image by name, in an archive or in a directory, and streams of their bytes.

Names and links cannot lead out of the image. Streams are read once in bounded memory: counted, hashed and decompressed.
The tarfile module trusts the sizes in headers and would read that much at once; these streams refuse absurd sizes.
`members` reads a tar file member by member and does not mistake a broken header for the end.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib
import io
import json
import lzma
import posixpath
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Protocol, Self, cast

from pumice.engines.local.images.confined_directory import parts
from pumice.engines.local.images.errors import ImageError

# Manifests and configurations have a few kilobytes.
_LARGEST_DOCUMENT: Final = 1 << 24
_MOST_LINKS: Final = 8
_BLOCK: Final = 512
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


class Blobs(Protocol):
    def has(self, name: str) -> bool: ...

    def open(self, name: str) -> Bytes:
        """Open a file. Raises ImageError if it is missing."""
        ...


def read_document(blobs: Blobs, name: str, digest: str = "") -> tuple[Any, str]:
    """Return a JSON document and its digest. Raises ImageError if it is not the given digest."""
    stream = blobs.open(name)
    data = b""
    while part := stream.read(CHUNK):
        data += part
        if len(data) > _LARGEST_DOCUMENT:
            raise ImageError(f"{name}: is too large for a JSON document of an image")
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if digest and found != digest:
        raise ImageError(f"{name}: is damaged: its digest is {found}, not {digest}")
    try:
        return json.loads(data), found
    except (ValueError, RecursionError):
        raise ImageError(f"{name}: is damaged: not JSON") from None


class DirectoryBlobs:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open = ExitStack()

    def close(self) -> None:
        self._open.close()

    def has(self, name: str) -> bool:
        return self._path(name).is_file()

    def open(self, name: str) -> Bytes:
        path = self._path(name)
        if not path.is_file():
            raise ImageError(f"{name}: is missing")
        return self._open.enter_context(path.open("rb"))

    def _path(self, name: str) -> Path:
        path = self._directory.joinpath(*parts(name))
        if not path.resolve().is_relative_to(self._directory.resolve()):
            raise ImageError(f"{name}: is a link to a file outside of the image")
        return path


def plain_file(path: Path, scratch: Path) -> IO[bytes]:
    """Open a tar file. If it is compressed as a whole, it is decompressed to a temporary file, for random access."""
    file = path.open("rb")
    try:
        stream = decompressed(Window(file, 0, path.stat().st_size))
        head = stream.read(_BLOCK)
        file.seek(0)
        if head == file.read(len(head)):
            return file
        with file:
            return _spooled(head, stream, scratch)
    except COMPRESSION_ERRORS as error:
        file.close()
        raise ImageError(f"is damaged or cut short: {error}") from None
    except BaseException:
        file.close()
        raise


def spooled(stream: Bytes, scratch: Path) -> IO[bytes]:
    """Copy a tar file that can be read only once to a temporary file, decompressed."""
    try:
        plain = Forward(decompressed(stream), hashed=False)
        head = plain.read(_BLOCK)
        if not head:
            raise ImageError("is empty", "the program that writes to the pipe has failed, or saved nothing")
        # What is no archive may have no end.
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        return _spooled(head, plain, scratch)
    except tarfile.HeaderError:
        raise ImageError("is not an archive", "make one with `docker save` or `podman save`") from None
    except COMPRESSION_ERRORS as error:
        raise ImageError(f"is damaged or cut short: {error}") from None


def _spooled(head: bytes, rest: Bytes, scratch: Path) -> IO[bytes]:
    """The copy takes at most a part of the disk, because what is copied may have no end."""
    most = shutil.disk_usage(scratch).free // 10 * 9
    copy: IO[bytes] = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - closed by the caller
    try:
        while head:
            copy.write(head)
            if copy.tell() > most:
                raise ImageError(f"takes more than {most} bytes, nine tenths of what is free on the disk")
            head = rest.read(CHUNK)
        copy.flush()
    except BaseException:
        copy.close()
        raise
    return copy


class ArchiveBlobs:
    """A tar file with random access, which it closes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._members: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        try:
            size = file.seek(0, 2)
            for _, member in members(Skipping(Window(file, 0, size))):
                name = "/".join(parts(member.name))
                if member.issym() or member.islnk():
                    # Older versions of docker save store equal layers as links to the first one.
                    base = posixpath.dirname(name) if member.issym() else ""
                    self._links[name] = posixpath.normpath(posixpath.join(base, member.linkname))
                elif member.isreg() and not member.issparse():
                    if member.offset_data + member.size > size:
                        raise ImageError(f"{name}: is cut short")
                    self._members[name] = member.offset_data, member.size
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def has(self, name: str) -> bool:
        return self._target(name) in self._members

    def open(self, name: str) -> Bytes:
        extent = self._members.get(self._target(name))
        if extent is None:
            raise ImageError(f"{name}: is missing")
        return Window(self._file, *extent)

    def _target(self, name: str) -> str:
        name = "/".join(parts(name))
        for _ in range(_MOST_LINKS):
            if name not in self._links:
                break
            name = self._links[name]
        return name
