"""The pieces of an image by name, in an archive file or in a directory; neither can lead out of itself."""

from __future__ import annotations

import hashlib
import json
import posixpath
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
    Skipping,
    Window,
    decompressed,
)
from pumice.engines.local.images.tar_members import members

# Manifests and configurations are some kilobytes; this is where one of them stops being believable.
_LARGEST_DOCUMENT: Final = 1 << 24
_MOST_LINKS: Final = 8
_BLOCK: Final = 512


class Blobs(Protocol):
    def has(self, name: str) -> bool: ...

    def open(self, name: str) -> Bytes:
        """The bytes of a piece; ImageError if it is not there."""
        ...


def read_document(blobs: Blobs, name: str, digest: str = "") -> tuple[Any, str]:
    """A JSON document and its digest, which has to be the given one, if one is given."""
    stream = blobs.open(name)
    data = b""
    while part := stream.read(CHUNK):
        data += part
        if len(data) > _LARGEST_DOCUMENT:
            raise ImageError(f"{name}: is too large for what it should be")
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if digest and found != digest:
        raise ImageError(f"{name}: is damaged: its digest is {found}, not {digest}")
    try:
        return json.loads(data), found
    except (ValueError, RecursionError):
        raise ImageError(f"{name}: is damaged: not JSON") from None


class DirectoryBlobs:
    def __init__(self, place: Path) -> None:
        self._place = place
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
        path = self._place.joinpath(*parts(name))
        if not path.resolve().is_relative_to(self._place.resolve()):
            raise ImageError(f"{name}: is a link that leads out of the image")
        return path


class ArchiveBlobs:
    """A tar file. One that is compressed as a whole is decompressed to a nameless file first, to be able to jump."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self._open = ExitStack()
        self._places: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        try:
            self._file = self._plain(path, scratch)
            self._index()
        except BaseException:
            self._open.close()
            raise

    def close(self) -> None:
        self._open.close()

    def has(self, name: str) -> bool:
        return self._target(name) in self._places

    def open(self, name: str) -> Bytes:
        place = self._places.get(self._target(name))
        if place is None:
            raise ImageError(f"{name}: is missing")
        return Window(self._file, *place)

    def _plain(self, path: Path, scratch: Path) -> IO[bytes]:
        file: IO[bytes] = self._open.enter_context(path.open("rb"))
        try:
            plain = decompressed(Window(file, 0, path.stat().st_size))
            head = plain.read(_BLOCK)
            if head == _head(file, len(head)):
                return file
            copy: IO[bytes] = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - closed with the rest
            self._open.callback(copy.close)
            while head:
                copy.write(head)
                head = plain.read(CHUNK)
            copy.flush()
        except COMPRESSION_ERRORS as error:
            raise ImageError(f"is damaged or cut short: {error}") from None
        return copy

    def _index(self) -> None:
        size = self._file.seek(0, 2)
        for _, member in members(Skipping(Window(self._file, 0, size))):
            name = "/".join(parts(member.name))
            if member.issym() or member.islnk():
                # docker save once stored equal layers as links to the first of them.
                base = posixpath.dirname(name) if member.issym() else ""
                self._links[name] = posixpath.normpath(posixpath.join(base, member.linkname))
            elif member.isreg() and not member.issparse():
                if member.offset_data + member.size > size:
                    raise ImageError(f"{name}: is cut short")
                self._places[name] = member.offset_data, member.size

    def _target(self, name: str) -> str:
        name = "/".join(parts(name))
        for _ in range(_MOST_LINKS):
            if name not in self._links:
                break
            name = self._links[name]
        return name


def _head(file: IO[bytes], size: int) -> bytes:
    file.seek(0)
    return file.read(size)
