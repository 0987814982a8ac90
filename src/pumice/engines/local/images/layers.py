"""Unpacks an image: applies its layers to a directory, which then appears by renaming.

After a crash the work continues: layers that were complete and verified are not read again.

An entry replaces that of lower layers; whiteouts (`.wh.name`, and `.wh..wh..opq` for a whole directory) remove those of
lower layers, wherever they are in their own layer. Symbolic links are stored unchanged. Device files are left out,
because an ordinary user cannot make them and a pod has its own. Owners are kept if the caller may set them (root).
Applying a layer again, after an interruption, gives the same result.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from msgspec.structs import asdict

from pumice.engines.local.images.blobs import CHUNK, COMPRESSION_ERRORS, Blobs, Forward, decompressed, members
from pumice.engines.local.images.confined_directory import ConfinedDirectory, Parts, parts
from pumice.engines.local.images.errors import ImageError, from_os_error
from pumice.engines.local.images.sources import ImageSource, Layer, read_config, this_machine
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.remove_tree import remove_tree

Report = Callable[[str], None]

ROOT: Final = "rootfs"
RECORD: Final = "image.json"
_PROGRESS: Final = "progress.json"
_DAMAGED: Final = (tarfile.TarError, ValueError, OverflowError, *COMPRESSION_ERRORS)
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_BOOKKEEPING: Final = ".wh..wh."
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ALL_BITS: Final = 0o7777
_OWNER: Final = 0o700
_NO_SUCH_OWNER: Final = (errno.EINVAL, errno.EPERM, errno.EOVERFLOW)
_CAPABILITY: Final = "SCHILY.xattr.security.capability"


def unpack(blobs: Blobs, source: ImageSource, target: Path, partial: Path, report: Report) -> None:
    """Fill `partial`, then rename it to `target`. An error removes it; an interruption does not."""
    try:
        _fill(blobs, source, partial, report)
        partial.rename(target)
    except OSError as error:
        remove_tree(partial)
        raise from_os_error(error).within("while unpacking") from None
    except ImageError:
        remove_tree(partial)
        raise


def _fill(blobs: Blobs, source: ImageSource, partial: Path, report: Report) -> None:
    root = partial / ROOT
    root.mkdir(parents=True, exist_ok=True)
    root_directory = RootDirectory(root, keep_owners=os.geteuid() == 0)
    progress: dict[str, Any] = {"done": [], "size": 0, "strict": {}, "warnings": {}}
    with suppress(OSError, ValueError):
        found = json.loads((partial / _PROGRESS).read_text())
        if isinstance(found, dict) and found.keys() == progress.keys():
            progress = found
    root_directory.strict.update(progress["strict"])
    root_directory.warnings.update(progress["warnings"])
    for number, layer in enumerate(source.layers, start=1):
        if progress["done"][number - 1 : number] == [layer.diff_id]:
            continue
        where = f"layer {number} of {len(source.layers)}"
        report(f"unpacking {where}")
        progress["size"] += _apply(root_directory, blobs, layer, where)
        progress["done"].append(layer.diff_id)
        progress.update(strict=root_directory.strict, warnings=root_directory.warnings)
        _write_json(partial / _PROGRESS, progress)
    root_directory.finish()
    config = read_config(source.document)
    warnings = [text if count == 1 else f"{text} ({count})" for text, count in root_directory.warnings.items()]
    if config.architecture not in {"", this_machine()}:
        warnings.append(f"is for {config.architecture}, this machine is {this_machine()}: its programs may not start")
    _write_json(partial / RECORD, {"config": asdict(config), "size": progress["size"], "warnings": warnings})
    (partial / _PROGRESS).unlink(missing_ok=True)  # missing if there are no layers


def _apply(root_directory: RootDirectory, blobs: Blobs, layer: Layer, where: str) -> int:
    """Apply one layer, verify its digests, and return its uncompressed size."""
    try:
        stored = Forward(blobs.open(layer.file), hashed=layer.digest not in {"", layer.diff_id})
        plain = Forward(decompressed(stored))
        root_directory.apply(plain)
        _check(plain.digest(), layer.diff_id)
        _check(stored.digest(), layer.digest)
    except ImageError as error:
        raise error.within(where) from None
    except _DAMAGED as error:
        raise ImageError(f"{where}: is damaged or cut short: {error}") from None
    except OSError as error:
        raise from_os_error(error).within(where) from None
    return plain.tell()


def _check(found: str, wanted: str) -> None:
    if found and wanted and found != wanted:
        raise ImageError(f"is damaged: its digest is {found}, not {wanted}", "save the image again")


def _write_json(path: Path, document: object) -> None:
    replace_file(path, json.dumps(document).encode(), sync=False)


class RootDirectory:
    """The root directory of an image to which layers are applied."""

    def __init__(self, root: Path, *, keep_owners: bool) -> None:
        self._root = root
        self._keep_owners = keep_owners
        # Modes that lock out the owner would lock us out, too, so they are set at the end.
        self.strict: dict[str, int] = {}
        self.warnings: dict[str, int] = {}  # number of occurrences by text

    def apply(self, layer: Forward) -> None:
        """Apply one layer, given as an uncompressed tar stream."""
        with ConfinedDirectory(self._root) as confined:
            work = _Layer(self, confined)
            for archive, member in members(layer):
                work.add(archive, member)

    def finish(self) -> None:
        for path in sorted(self.strict, reverse=True):
            # A later layer may have replaced the directory.
            with ConfinedDirectory(self._root) as confined, suppress(FileNotFoundError, ImageError):
                os.fchmod(confined.directory(parts(path), make=False), self.strict[path])

    def warn(self, text: str) -> None:
        self.warnings[text] = self.warnings.get(text, 0) + 1

    def set_mode(self, descriptor: int, path: Parts, mode: int) -> None:
        """Set the mode of a directory; until `finish`, the owner keeps access."""
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
            # As for root in a user namespace, which has only some ids.
            self.warn("owners that do not exist on this machine are not kept")


class _Layer:
    def __init__(self, target: RootDirectory, confined: ConfinedDirectory) -> None:
        self._target = target
        self._confined = confined
        # All paths of this layer with their parents: whiteouts do not remove these.
        self._own: set[Parts] = set()

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = parts(member.name)
        base = path[-1] if path else ""
        if base == _OPAQUE:
            self._hide_below(path[:-1])
        elif base.startswith(_BOOKKEEPING):
            return
        elif base.startswith(_WHITEOUT):
            hidden = base.removeprefix(_WHITEOUT)
            if hidden in {"", ".", ".."}:
                raise ImageError(f"{member.name}: is not a valid whiteout")
            self._hide((*path[:-1], hidden))
        else:
            self._add_entry(archive, member, path)

    def _add_entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Parts) -> None:
        if member.ischr() or member.isblk():
            self._target.warn("device files are left out; a pod has its own /dev")
            return
        if _CAPABILITY in member.pax_headers:
            self._target.warn("file capabilities are not kept")
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
        found = self._confined.status(path) if path else None
        if found is not None and not stat.S_ISDIR(found.st_mode):
            self._confined.remove(path)
        descriptor = self._confined.directory(path)
        if path:
            self._target.set_owner(path[-1], self._confined.directory(path[:-1]), member)
            descriptor = self._confined.directory(path)
        self._target.set_mode(descriptor, path, member.mode & _ALL_BITS)

    def _make_link(self, member: tarfile.TarInfo, path: Parts) -> None:
        """Make a hard link to a file of this layer or a lower one."""
        source_path = parts(member.linkname)
        found = self._confined.status(source_path) if source_path else None
        if found is None or stat.S_ISDIR(found.st_mode):
            what = "is not in the image" if found is None else "is a directory"
            raise ImageError(f"{member.name}: is a hard link to {member.linkname}, which {what}")
        if source_path == path:
            return
        if source_path[: len(path)] == path:
            raise ImageError(f"{member.name}: is a hard link to {member.linkname}, which it would replace")
        source = os.dup(self._confined.directory(source_path[:-1]))
        try:
            self._confined.remove(path)
            parent = self._confined.directory(path[:-1])
            os.link(source_path[-1], path[-1], src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(source)

    def _make_entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Parts) -> None:
        self._confined.remove(path)
        parent, name = self._confined.directory(path[:-1]), path[-1]
        if member.issym():
            if not member.linkname:
                raise ImageError(f"{member.name}: is a symbolic link to nothing")
            os.symlink(member.linkname, name, dir_fd=parent)
            self._target.set_owner(name, parent, member)
        elif member.isfifo():
            os.mkfifo(name, member.mode & _ALL_BITS, dir_fd=parent)
            self._target.set_owner(name, parent, member)
        else:
            self._write(archive, member, parent, name)
        with suppress(OverflowError, OSError):
            # Programs compare these times, as Python does for compiled files; a failure does no harm.
            os.utime(name, (member.mtime, member.mtime), dir_fd=parent, follow_symlinks=False)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
        source = archive.extractfile(member)
        if source is None:
            raise ImageError(f"{member.name}: is of an unknown type")
        descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=parent)
        extents: Iterable[tuple[int, int]] = [(0, member.size)]
        if member.issparse() and member.sparse is not None:
            # Sparse files stay sparse on disk.
            extents = cast(Iterable[tuple[int, int]], member.sparse)
        with os.fdopen(descriptor, "wb") as file:
            try:
                for offset, size in extents:
                    source.seek(offset)
                    file.seek(offset)
                    left = size
                    while data := source.read(min(CHUNK, left)):
                        file.write(data)
                        left -= len(data)
            except tarfile.TarError as error:
                raise ImageError(f"{member.name}: is damaged or cut short: {error}") from None
            file.truncate(member.size)
            self._target.set_owner(name, parent, member)
            # After the owner: changing the owner clears the setuid bit.
            os.fchmod(descriptor, member.mode & _ALL_BITS)

    def _hide(self, path: Parts) -> None:
        """Remove what lower layers have at a path; entries of this layer stay."""
        if path in self._own:
            self._hide_below(path)
        else:
            self._confined.remove(path)

    def _hide_below(self, path: Parts) -> None:
        try:
            descriptor = self._confined.directory(path, make=False)
        except (FileNotFoundError, ImageError):
            # Not a directory, so there is nothing below it.
            return
        for name in os.listdir(descriptor):  # noqa: PTH208 - a path could not name an open directory
            self._hide((*path, name))
