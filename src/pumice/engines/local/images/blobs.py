"""The files of an image by name, in an archive or in a directory; names and links cannot lead out of it."""

from __future__ import annotations

import hashlib
import json
import posixpath
import shutil
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Protocol

from pumice.engines.local.images.confined_directory import parts
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.streams import (
    CHUNK,
    COMPRESSION_ERRORS,
    Bytes,
    Forward,
    Skipping,
    Window,
    decompressed,
    members,
)

# Manifests and configurations have a few kilobytes.
_LARGEST_DOCUMENT: Final = 1 << 24
_MOST_LINKS: Final = 8
_BLOCK: Final = 512


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
