"""Files and directories as tar streams, to copy them into a container of a cluster or out of it.

A container may send anything. What is read is created by TreeReader: below its target, through no link. Long headers,
negative sizes and names that leave the tree end the copy; devices, pipes and links that lead outside are left out.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from pumice.engines.local.sandbox.tree_stream import (
    DIRECTORY,
    END,
    FILE,
    LINK,
    SKIPPED,
    StreamError,
    TreeReader,
    is_denied,
    reason_of,
    target_of,
)

__all__ = ["RootIsLinkError", "StreamError", "TarSource", "TarTree", "is_denied", "reason_of", "target_of"]

_BLOCK: Final = 512
_CHUNK: Final = 1 << 18
_LONGEST_HEADER: Final = 1 << 20  # of names that do not fit into a block
_MOST_FILES: Final = 100_000  # to which hard links can lead
_DEEPEST: Final = 250
_POSITIVE: Final = 0x80  # the first byte of a number in base 256; that of a negative one is 255
_MOST_DIGITS: Final = 19
_PERMISSIONS: Final = 0o777
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_Names = tuple[str, ...]
Skip = Callable[[str, str, bool], None]  # path, reason, whether it is an error


class RootIsLinkError(StreamError):
    """The path that was asked for is a symbolic link."""


class TarTree(TreeReader):
    """Creates what a tar stream says, as `name` in a directory. `root` is the name of the root in it, or `.`."""

    def __init__(self, source: BinaryIO, directory: int, name: str, skipped: Skip, root: str) -> None:
        super().__init__(source, directory, name, skipped)
        self._root = () if root == "." else (root,)
        self._left = self._padding = 0
        self._files: set[_Names] = set()
        self._original: int | None = None  # the file that a hard link leads to
        self.has_root = False

    def read_entry(self) -> dict[str, Any]:
        extended: dict[str, str] = {}
        while True:
            block = self.read_exactly(_BLOCK)
            if not any(block):
                return {"kind": END}
            header = _Header.read(block)
            if header.kind in b"xgLK":
                if header.kind != b"g":
                    extended |= self._extension(header)
                else:
                    self._extension(header)
                continue
            entry = self._entry_of(header, extended)
            if entry is not None:
                self.has_root = True
                return entry
            extended = {}

    def read_chunks(self) -> Iterator[bytes]:
        if self._original is not None:
            while chunk := os.read(self._original, _CHUNK):
                yield chunk
            os.close(self._original)
            self._original = None
        while self._left:
            length = min(self._left, _CHUNK)
            self._left -= length
            yield self.read_exactly(length)
        padding, self._padding = self._padding, 0
        self.read_exactly(padding)

    def _entry_of(self, header: _Header, extended: dict[str, str]) -> dict[str, Any] | None:
        """Return None for the directories above the root, which hold nothing else."""
        size = _size(extended["size"]) if "size" in extended else header.size
        names = _names(extended.get("path", header.name))
        if names[: len(self._root)] != self._root:
            raise StreamError(f"{'/'.join(names)!r} was not asked for")
        path = names[len(self._root) :]
        kind = DIRECTORY if header.is_directory else header.kind
        has_content = kind in _FILES or kind not in _WITHOUT_CONTENT
        self._left = size if has_content else 0
        self._padding = -self._left % _BLOCK
        about: dict[str, Any] = {"path": path, "mode": header.mode}
        target = extended.get("linkpath", header.link)
        if kind == DIRECTORY:
            return {"kind": DIRECTORY, **about}
        if kind in _FILES:
            if len(self._files) < _MOST_FILES:
                self._files.add(path)
            return {"kind": FILE, **about}
        if kind == _SYMBOLIC:
            if not path:
                raise RootIsLinkError("it is a symbolic link")
            return {"kind": LINK, **about, "target": target}
        if kind == _HARD:
            return self._hard_link(about, path, target)
        for _ in self.read_chunks():
            continue
        return {"kind": SKIPPED, **about, "why": "not a file, directory or link"}

    def _hard_link(self, about: dict[str, Any], path: _Names, target: str) -> dict[str, Any]:
        """Copy the file that it leads to, if that came in this stream."""
        names = _names(target)
        original = names[len(self._root) :]
        if names[: len(self._root)] != self._root or original not in self._files or original == path:
            return {"kind": SKIPPED, **about, "why": f"a link to {target}, which was not copied", "error": True}
        try:
            with self.opened_parent(original) as (parent, name):
                self._original = os.open(name, _OPEN, dir_fd=parent)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            return {"kind": SKIPPED, **about, "why": why, "error": True}
        return {"kind": FILE, **about}

    def _extension(self, header: _Header) -> dict[str, str]:
        if header.size > _LONGEST_HEADER:
            raise StreamError("a header is too long")
        content = self.read_exactly(header.size)
        self.read_exactly(-header.size % _BLOCK)
        if header.kind == b"L":
            return {"path": _text(content)}
        if header.kind == b"K":
            return {"linkpath": _text(content)}
        return dict(_records(content))


_FILES: Final = frozenset((b"0", b"\0", b"7"))
_HARD: Final = b"1"
_SYMBOLIC: Final = b"2"
_DIRECTORY: Final = b"5"
_WITHOUT_CONTENT: Final = frozenset((_HARD, _SYMBOLIC, b"3", b"4", b"6", DIRECTORY))


class _Header(NamedTuple):
    name: str
    mode: int
    size: int
    kind: bytes
    link: str

    @property
    def is_directory(self) -> bool:
        return self.kind == _DIRECTORY or (self.kind in _FILES and self.name.endswith("/"))

    @classmethod
    def read(cls, block: bytes) -> _Header:
        found = sum(block[:148]) + 8 * 32 + sum(block[156:])
        if _number(block[148:156]) != found:
            raise StreamError("not a tar stream")
        name = _text(block[:100])
        # GNU tar has other fields there.
        if block[257:263] == b"ustar\0" and (prefix := _text(block[345:500])):
            name = f"{prefix}/{name}"
        mode = _number(block[100:108])
        return cls(name, mode & _PERMISSIONS, _number(block[124:136]), block[156:157], _text(block[157:257]))


def _number(field: bytes) -> int:
    """Read an octal number, or one in base 256, as GNU tar writes large ones."""
    if field[0] & _POSITIVE:
        value = int.from_bytes(field[1:], "big")
        if field[0] != _POSITIVE or value >= 1 << 63:
            raise StreamError("a size is impossible")
        return value
    text = field.split(b"\0")[0].strip()
    try:
        value = int(text or b"0", 8)
    except ValueError as error:
        raise StreamError("a number is not octal") from error
    if value < 0:
        raise StreamError("a number is negative")
    return value


def _size(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS):
        raise StreamError("a size is impossible")
    return int(text)


def _records(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield what the extended header of a file says: `LENGTH KEY=VALUE` and a newline."""
    while content.strip(b"\0"):
        digits, space, _ = content[:20].partition(b" ")
        if not space or not digits.isdigit() or not len(digits) < int(digits) <= len(content):
            raise StreamError("an extended header is damaged")
        record, content = content[len(digits) + 1 : int(digits)], content[int(digits) :]
        key, equals, value = record.removesuffix(b"\n").partition(b"=")
        if equals and key in (b"path", b"linkpath", b"size"):
            yield key.decode(), value.decode("utf-8", "surrogateescape")


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode("utf-8", "surrogateescape")


def _names(path: str) -> _Names:
    """Return the names of a path below the directory that was asked for. Raises StreamError if it leaves that."""
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    if path.startswith("/") or ".." in names:
        raise StreamError(f"{path!r} leads out of what was asked for")
    return names


# --- sending ----------------------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    path: _Names
    header: bytes
    size: int  # of its content


class TarSource:
    """A local file or directory, which becomes `name` in the stream. What cannot be read is reported and left out."""

    def __init__(self, path: Path, name: str, skipped: Skip) -> None:
        """Raises OSError if the path itself cannot be read."""
        self._skipped = skipped
        self._name = name
        found = path.stat()
        if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
            raise OSError(22, "neither a file nor a directory", str(path))
        self._root = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self.is_directory = stat.S_ISDIR(found.st_mode)
        self._entries = list(self._scan(self._root, ()))

    @property
    def length(self) -> int:
        """How many bytes the stream has."""
        return sum(len(each.header) + each.size + -each.size % _BLOCK for each in self._entries) + 2 * _BLOCK

    def close(self) -> None:
        os.close(self._root)

    def write(self, out: BinaryIO) -> None:
        """Raises OSError if the other side does not read."""
        for each in self._entries:
            out.write(each.header)
            if each.size:
                self._write_content(each, out)
        out.write(bytes(2 * _BLOCK))
        out.flush()

    def _scan(self, descriptor: int, path: _Names) -> Iterator[_Entry]:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            yield self._entry(path, found, tarfile.REGTYPE, found.st_size)
            return
        yield self._entry(path, found, tarfile.DIRTYPE)
        for name in sorted(os.listdir(descriptor)):
            inner = (*path, name)
            try:
                yield from self._scan_below(descriptor, inner)
            except OSError as error:
                self._skipped("/".join(inner), (error.strerror or str(error)).lower(), True)

    def _scan_below(self, directory: int, path: _Names) -> Iterator[_Entry]:
        found = os.stat(path[-1], dir_fd=directory, follow_symlinks=False)
        text = "/".join(path)
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(path[-1], dir_fd=directory)
            if _stays_inside(path, target):
                yield self._entry(path, found, tarfile.SYMTYPE, link=target)
            else:
                self._skipped(text, f"a link that leads outside, to {target}", False)
        elif not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)) or len(path) > _DEEPEST:
            self._skipped(text, "too deep" if len(path) > _DEEPEST else "not a file, directory or link", False)
        else:
            descriptor = os.open(path[-1], _OPEN, dir_fd=directory)
            try:
                yield from self._scan(descriptor, path)
            finally:
                os.close(descriptor)

    def _entry(self, path: _Names, found: os.stat_result, kind: bytes, size: int = 0, link: str = "") -> _Entry:
        about = tarfile.TarInfo("/".join((self._name, *path)))
        about.type, about.size, about.linkname = kind, size, link
        about.mode, about.mtime = stat.S_IMODE(found.st_mode) & _PERMISSIONS, int(found.st_mtime)
        header = about.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        return _Entry(path, header, size)

    def _write_content(self, entry: _Entry, out: BinaryIO) -> None:
        """Write as much as the header says, also if the file has changed since."""
        left = entry.size
        try:
            descriptor = self._opened(entry.path)
        except OSError as error:
            self._skipped("/".join(entry.path), (error.strerror or str(error)).lower(), True)
        else:
            try:
                while left and (chunk := os.read(descriptor, min(left, _CHUNK))):
                    out.write(chunk)
                    left -= len(chunk)
            finally:
                os.close(descriptor)
            if left:
                self._skipped("/".join(entry.path), "became shorter while it was read", True)
        while left:
            length = min(left, _CHUNK)
            out.write(bytes(length))
            left -= length
        out.write(bytes(-entry.size % _BLOCK))

    def _opened(self, path: _Names) -> int:
        """Open a file of the tree again, through no link."""
        opened = os.dup(self._root)
        os.lseek(opened, 0, os.SEEK_SET)
        for name in path:
            try:
                inner = os.open(name, _OPEN, dir_fd=opened)
            finally:
                os.close(opened)
            opened = inner
        return opened


def _stays_inside(path: Sequence[str], target: str) -> bool:
    depth = len(path) - 1
    if target.startswith("/"):
        return False
    for name in target.split("/"):
        depth += -1 if name == ".." else name not in ("", ".")
        if depth < 0:
            return False
    return True
