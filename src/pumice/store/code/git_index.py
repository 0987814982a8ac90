"""Reads the index of a repository, versions 2 to 4: which files are tracked, and what git last saw of them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from pumice.store.code.beneath import is_inside

LARGEST: Final = 256 << 20  # bytes
MOST: Final = 1_000_000  # files
LONGEST: Final = 4096  # bytes of a path; in version 4, a few bytes of the file are a path of any length
SUBMODULE: Final = 0o160000
DIRECTORY: Final = 0o040000
LINK: Final = 0o120000
_FIXED: Final = struct.Struct(">2L2L2L4L20sH")
_EXTENDED: Final = 0x4000
_SKIP_WORKTREE: Final = 0x4000  # of the second flags
_INTENT_TO_ADD: Final = 0x2000
_SOME: Final = 4096
_HASH: Final = 20
_HEADER: Final = 12
_SPLIT: Final = "its index is split into two files (core.splitIndex), which are not read"


class GitError(Exception):
    """A repository, or a part of it, cannot be read. The message says why."""


class IndexEntry(NamedTuple):
    path: str
    mode: int
    object_id: bytes
    mtime: int  # nanoseconds
    size: int  # modulo 2**32
    inode: int  # modulo 2**32
    stage: int  # not 0: one side of a conflict
    sparse: bool  # git left it out of the working tree
    intended: bool  # `git add -N`: its content is not in the index


class LateError(GitError):
    """There is no time to read it all."""


def read_index(content: bytes, late: Callable[[], bool] = lambda: False) -> list[IndexEntry]:
    """Return the entries, in the order of their paths. Raises GitError, and LateError when it is late."""
    try:
        return _read(content, late)
    except (struct.error, IndexError, ValueError) as error:
        raise GitError("its index is damaged") from error


def _read(content: bytes, late: Callable[[], bool]) -> list[IndexEntry]:
    signature, version, count = struct.unpack_from(">4sLL", content)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise GitError(f"its index has version {version}: 2 to 4 are read")
    if count > MOST:
        raise GitError(f"its index has {count} files: at most {MOST} are read")
    entries, position, path, left = [], _HEADER, b"", LARGEST
    for number in range(count):
        if not number % _SOME and late():
            raise LateError(f"its index has {count} files: the time was up")
        begin = position
        _, _, seconds, nanoseconds, _, inode, mode, _, _, size, object_id, flags = _FIXED.unpack_from(content, begin)
        position += _FIXED.size
        more = 0
        if flags & _EXTENDED and version > 2:  # noqa: PLR2004 - version 2 has no second flags
            (more,) = struct.unpack_from(">H", content, position)
            position += 2
        if version == 4:  # noqa: PLR2004 - paths share their beginning with the one before
            removed, position = read_offset(content, position)
            end = content.index(0, position)
            path = path[: len(path) - removed] + content[position:end]
            position = end + 1
        else:
            end = content.index(0, position)
            path = content[position:end]
            position = begin + ((end - begin) // 8 + 1) * 8
        left -= len(path)
        if len(path) > LONGEST or left < 0:
            raise GitError("its index has paths that are too long")
        text = path.decode("utf-8", "surrogateescape").rstrip("/")
        if not text:
            raise GitError(_SPLIT)
        if not is_inside(text):
            raise GitError("its index names a path outside of the directory")
        mtime, stage = seconds * 10**9 + nanoseconds, flags >> 12 & 3
        sparse, intended = bool(more & _SKIP_WORKTREE), bool(more & _INTENT_TO_ADD)
        entries.append(IndexEntry(text, mode, object_id, mtime, size, inode, stage, sparse, intended))
    _check_extensions(content, position)
    return entries


def read_offset(content: bytes, position: int) -> tuple[int, int]:
    """Return a number as packs have it for offsets, and where it ends."""
    byte = content[position]
    position += 1
    value = byte & 127
    while byte & 128:
        byte = content[position]
        position += 1
        value = (value + 1 << 7) | byte & 127
    return value, position


def _check_extensions(content: bytes, position: int) -> None:
    while position + 8 <= len(content) - _HASH:
        name, size = struct.unpack_from(">4sL", content, position)
        if name == b"link":
            raise GitError(_SPLIT)
        if name[:1].islower() and name != b"sdir":
            raise GitError(f"its index has an extension {name!r} that is not known")
        position += 8 + size


class TreeEntry(NamedTuple):
    mode: int
    object_id: bytes


class IndexTrees:
    """The trees that the index would make. Their ids are computed: an index cannot say that it equals a commit."""

    def __init__(self, entries: Iterable[IndexEntry]) -> None:
        self._directories: dict[str, dict[str, TreeEntry]] = {"": {}}
        for entry in entries:
            if entry.stage or entry.intended:
                continue
            above, _, name = entry.path.rpartition("/")
            parent = above
            while parent not in self._directories:
                self._directories[parent] = {}
                parent = parent.rpartition("/")[0]
            self._directories[above][name] = TreeEntry(entry.mode, entry.object_id)
        for path in sorted(self._directories, key=lambda path: path.count("/") + bool(path), reverse=True):
            named = ((name.encode("utf-8", "surrogateescape"), each) for name, each in self._directories[path].items())
            # Git sorts a directory as if its name ended in a slash.
            order = sorted(named, key=lambda item: item[0] + (b"/" if item[1].mode == DIRECTORY else b""))
            body = b"".join(b"%o %s\0%s" % (each.mode, name, each.object_id) for name, each in order)
            self.root = object_id("tree", body)
            if path:
                above, _, name = path.rpartition("/")
                self._directories[above][name] = TreeEntry(DIRECTORY, self.root)

    def read_tree(self, path: str, _wanted: bytes) -> dict[str, TreeEntry]:
        return self._directories.get(path, {})  # a sparse index knows no more than the id


def object_id(kind: str, content: bytes) -> bytes:
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).digest()
