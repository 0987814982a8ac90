"""Lays the layers of an image on top of each other, in a directory.

An entry replaces what lower layers have in its place; whiteouts (`.wh.name`, and `.wh..wh..opq` for all of a directory)
remove what lower layers have, wherever they stand in their own layer. Symbolic links are stored as they are. Device
files are left out, because an ordinary user cannot make them and a pod has its own. Owners are kept where the caller
may set them, that is for root. Applying a layer a second time, after the first was cut short, gives the same result.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, cast

from pumice.engines.local.images.confined_directory import ConfinedDirectory, Parts, parts
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.streams import CHUNK, Forward
from pumice.engines.local.images.tar_members import members

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_BOOKKEEPING: Final = ".wh..wh."
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ALL_BITS: Final = 0o7777
_OWNER: Final = 0o700
_NO_SUCH_OWNER: Final = (errno.EINVAL, errno.EPERM, errno.EOVERFLOW)
_CAPABILITY: Final = "SCHILY.xattr.security.capability"


class Unpacking:
    """The state of one image while its layers are applied."""

    def __init__(self, root: Path, *, keep_owners: bool) -> None:
        self._root = root
        self._keep_owners = keep_owners
        # A directory that shuts out its owner would shut us out as well, so such modes are set when all is done.
        self.strict: dict[str, int] = {}
        self.warnings: dict[str, int] = {}  # how often, by text

    def apply(self, layer: Forward) -> None:
        """Apply one layer, a stream of a plain tar."""
        with ConfinedDirectory(self._root) as rooted:
            work = _Layer(self, rooted)
            for archive, member in members(layer):
                work.take(archive, member)

    def finish(self) -> None:
        for path in sorted(self.strict, reverse=True):
            # A later layer may have put something else there.
            with ConfinedDirectory(self._root) as rooted, suppress(FileNotFoundError, ImageError):
                os.fchmod(rooted.directory(parts(path), make=False), self.strict[path])

    def warn(self, text: str) -> None:
        self.warnings[text] = self.warnings.get(text, 0) + 1

    def set_mode(self, descriptor: int, path: Parts, mode: int) -> None:
        """Set the mode of a directory, or for the time being one that lets us in."""
        self.strict.pop("/".join(path), None)
        if mode & _OWNER != _OWNER:
            self.strict["/".join(path)] = mode
        os.fchmod(descriptor, mode | _OWNER)

    def set_owner(self, name: str, parent: int, member: tarfile.TarInfo) -> None:
        if not self._keep_owners:
            return
        try:
            os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_SUCH_OWNER:
                raise
            # Root in a container, say, which has a few of all owners only.
            self.warn("owners that do not exist here are not kept")


class _Layer:
    """One layer on its way into the directory."""

    def __init__(self, unpacking: Unpacking, rooted: ConfinedDirectory) -> None:
        self._unpacking = unpacking
        self._rooted = rooted
        # All paths of this layer, with the directories above them: whiteouts do not touch these.
        self._own: set[Parts] = set()

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = parts(member.name)
        base = path[-1] if path else ""
        if base == _OPAQUE:
            self._hide_below(path[:-1])
        elif base.startswith(_BOOKKEEPING):
            return
        elif base.startswith(_WHITEOUT):
            self._hide((*path[:-1], _hidden_name(member.name, base)))
        else:
            self._place(archive, member, path)

    def _place(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Parts) -> None:
        if member.ischr() or member.isblk():
            self._unpacking.warn("device files are left out; a pod has its own /dev")
            return
        if _CAPABILITY in member.pax_headers:
            self._unpacking.warn("file capabilities are not kept")
        for length in range(len(path), -1, -1):
            if path[:length] in self._own:
                break
            self._own.add(path[:length])
        if member.isdir():
            self._make_directory(member, path)
        elif not path:
            raise ImageError(f"{member.name or '/'}: the root of the image must be a directory")
        elif member.islnk():
            self._make_link(member, path)
        else:
            self._make_entry(archive, member, path)

    def _make_directory(self, member: tarfile.TarInfo, path: Parts) -> None:
        found = self._rooted.status(path) if path else None
        if found is not None and not stat.S_ISDIR(found.st_mode):
            self._rooted.remove(path)
        descriptor = self._rooted.directory(path)
        if path:
            self._unpacking.set_owner(path[-1], self._rooted.directory(path[:-1]), member)
            descriptor = self._rooted.directory(path)
        self._unpacking.set_mode(descriptor, path, member.mode & _ALL_BITS)

    def _make_link(self, member: tarfile.TarInfo, path: Parts) -> None:
        """A second name for a file of the image, be it of this layer or of a lower one."""
        target = parts(member.linkname)
        found = self._rooted.status(target) if target else None
        if found is None or stat.S_ISDIR(found.st_mode):
            what = "is not in the image" if found is None else "is a directory"
            raise ImageError(f"{member.name}: is a hard link to {member.linkname}, which {what}")
        if target == path:
            return
        if target[: len(path)] == path:
            raise ImageError(f"{member.name}: is a hard link to {member.linkname}, which it would replace")
        source = os.dup(self._rooted.directory(target[:-1]))
        try:
            self._rooted.remove(path)
            parent = self._rooted.directory(path[:-1])
            os.link(target[-1], path[-1], src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(source)

    def _make_entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Parts) -> None:
        self._rooted.remove(path)
        parent, name = self._rooted.directory(path[:-1]), path[-1]
        if member.issym():
            if not member.linkname:
                raise ImageError(f"{member.name}: is a symbolic link to nothing")
            os.symlink(member.linkname, name, dir_fd=parent)
            self._unpacking.set_owner(name, parent, member)
        elif member.isfifo():
            os.mkfifo(name, member.mode & _ALL_BITS, dir_fd=parent)
            self._unpacking.set_owner(name, parent, member)
        else:
            self._write(archive, member, parent, name)
        with suppress(OverflowError, OSError):
            # Programs compare these times (Python its compiled files); one that cannot be set is no loss.
            os.utime(name, (member.mtime, member.mtime), dir_fd=parent, follow_symlinks=False)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
        source = archive.extractfile(member)
        if source is None:
            raise ImageError(f"{member.name}: is of a kind that no image has")
        descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=parent)
        with os.fdopen(descriptor, "wb") as file:
            try:
                for offset, size in _extents(member):
                    source.seek(offset)
                    file.seek(offset)
                    _copy(source, file, size)
            except tarfile.TarError as error:
                raise ImageError(f"{member.name}: is damaged or cut short: {error}") from None
            file.truncate(member.size)
            self._unpacking.set_owner(name, parent, member)
            # After the owner, since a change of owner takes the setuid bit away.
            os.fchmod(descriptor, member.mode & _ALL_BITS)

    def _hide(self, path: Parts) -> None:
        """Remove what lower layers have at a path; what this layer has there stays."""
        if path in self._own:
            self._hide_below(path)
        else:
            self._rooted.remove(path)

    def _hide_below(self, path: Parts) -> None:
        try:
            descriptor = self._rooted.directory(path, make=False)
        except (FileNotFoundError, ImageError):
            # No directory, so there is nothing below it.
            return
        for name in os.listdir(descriptor):  # noqa: PTH208 - a path could not name an open directory
            self._hide((*path, name))


def _hidden_name(name: str, base: str) -> str:
    hidden = base.removeprefix(_WHITEOUT)
    if hidden in {"", ".", ".."}:
        raise ImageError(f"{name}: hides nothing that could be in its directory")
    return hidden


def _extents(member: tarfile.TarInfo) -> Iterator[tuple[int, int]]:
    """Where the data of a file are; between them it is empty, and stays so on disk."""
    if member.issparse() and member.sparse is not None:
        yield from cast(Iterable[tuple[int, int]], member.sparse)
    else:
        yield 0, member.size


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while data := source.read(min(CHUNK, size)):
        target.write(data)
        size -= len(data)
