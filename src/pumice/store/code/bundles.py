"""Bundles of code: archives that are equal for equal files, so that their hash names them, and how to unpack them."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.model.units import size_text
from pumice.store.code.beneath import Directory, is_inside, leads_out
from pumice.store.code.selection import TOO_MANY, CodeFile, CodeFiles
from pumice.store.run_errors import IncompleteCodeError, InvalidOption, StoreError

LARGEST: Final = 1 << 30  # bytes of the files of a bundle
_LEVEL: Final = 6


class Bundle(Struct, frozen=True):
    sha256: str  # of `data`
    data: bytes  # a gzipped tar archive
    files: int
    sizes: Mapping[str, int]  # by path
    left_out: tuple[str, ...] = ()  # because they look like credentials


def make_bundle(files: CodeFiles) -> Bundle:
    """Return the bundle of selected files. Raises InvalidOption if they are too many or too large, and OSError."""
    if not files.is_complete:
        raise InvalidOption(
            f"{files.directory}: {TOO_MANY} besides those that git tracks", "name what is no code in .pumiceignore"
        )
    total = sum(file.size for file in files.files)
    if total > LARGEST:
        largest = max(files.files, key=lambda file: file.size)
        raise InvalidOption(
            f"{files.directory}: {size_text(total)} of code: at most {size_text(LARGEST)} can be packed",
            f"name what is no code in .pumiceignore; the largest file is {largest.path} ({size_text(largest.size)})",
        )
    with Directory(files.directory) as directory:
        contents = ((file, b"" if file.link else directory.read(file.path, LARGEST)) for file in files.files)
        return pack(contents, files.credentials)


def pack(contents: Iterable[tuple[CodeFile, bytes]], left_out: tuple[str, ...] = ()) -> Bundle:
    """Return the bundle of files with these contents."""
    archive, sizes = io.BytesIO(), {}
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for file, content in sorted(contents, key=lambda item: item[0].path):
            entry = tarfile.TarInfo(file.path)
            entry.mode, sizes[file.path] = file.mode, len(content)
            if file.link:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, file.link, 0o777
            else:
                entry.size = len(content)
            tar.addfile(entry, None if file.link else io.BytesIO(content))
    data = gzip.compress(archive.getbuffer(), _LEVEL, mtime=0)
    return Bundle(hashlib.sha256(data).hexdigest(), data, len(sizes), sizes, left_out)


def read_bundle(sha256: str, data: bytes, left_out: tuple[str, ...] = ()) -> Bundle:
    """Return the bundle of an archive that was stored. Raises StoreError if it is damaged."""
    sizes = {entry.name: len(content) for entry, content in _checked_entries(sha256, data)}
    return Bundle(sha256, data, len(sizes), sizes, left_out)


def write_code(run: str, bundle: Bundle | None, directory: Path) -> tuple[str, ...]:
    """Write the code of a run into a new directory; return what was left out of it.

    Raises IncompleteCodeError without a bundle, InvalidOption and StoreError.
    """
    if bundle is None:
        raise IncompleteCodeError(f"{run}: its code is not recorded")
    try:
        unpack(bundle, directory)
    except OSError as error:
        raise InvalidOption(f"{directory}: {(error.strerror or str(error)).lower()}") from error
    return bundle.left_out


def unpack(bundle: Bundle, directory: Path) -> None:
    """Unpack into a new directory. Nothing is written outside of it, over a file, or into a `.git`.

    Raises InvalidOption if the directory exists, StoreError if the bundle is refused, and OSError.
    """
    entries = _checked_entries(bundle.sha256, bundle.data)
    try:
        directory.mkdir(parents=True)
    except FileExistsError as error:
        raise InvalidOption(f"{directory}: exists already", "name a new directory") from error
    with Directory(str(directory)) as top:
        for entry, content in entries:
            _write(top, entry, content)


def _checked_entries(sha256: str, data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return files and links. Raises StoreError, also for what no bundle has."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise StoreError("the bundle is damaged: its hash is another one")
    entries = []
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            plain = packed.read(2 * LARGEST + 1)
        if len(plain) > 2 * LARGEST:
            raise StoreError("the bundle is refused: it is too large")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
            for entry in tar:
                file = tar.extractfile(entry) if entry.isreg() else None
                is_link = entry.issym() and not leads_out(entry.name, entry.linkname)
                if not (is_inside(entry.name) and (file or is_link)):
                    raise StoreError(f"the bundle is refused: {entry.name!r} is no file or link inside of it")
                entries.append((entry, b"" if file is None else file.read()))
    except (tarfile.TarError, EOFError, zlib.error, ValueError, gzip.BadGzipFile) as error:
        raise StoreError(f"the bundle is damaged: {error}") from error
    return entries


def _write(top: Directory, entry: tarfile.TarInfo, content: bytes) -> None:
    """A link that an earlier entry made is not followed."""
    above, _, name = entry.name.rpartition("/")
    path = ""
    for part in above.split("/") if above else ():
        parent, path = path, f"{path}/{part}" if path else part
        try:
            os.mkdir(part, dir_fd=top.directory(parent))
        except FileExistsError:
            continue
    if entry.issym():
        os.symlink(entry.linkname, name, dir_fd=top.directory(above))
        return
    with os.fdopen(top.create(entry.name, 0o755 if entry.mode & 0o100 else 0o644), "wb") as file:
        file.write(content)
