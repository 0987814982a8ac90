"""Reads objects of a repository: loose ones and packs. Every size is bounded, every object has the id that it names.

Files are read by descriptor, not mapped: a pod that shortens a mapped file would kill this process. Objects that the
repository borrows from others (`objects/info/alternates`) are not there: such a path may lead anywhere.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from pumice.store.code.beneath import Directory, is_git, read_all
from pumice.store.code.git_index import (
    DIRECTORY,
    LINK,
    LONGEST,
    SUBMODULE,
    GitError,
    LateError,
    TreeEntry,
    object_id,
    read_offset,
)

LARGEST: Final = 256 << 20  # bytes of an object
_COST: Final = 512  # of reading an object, as if it were bytes
_COST_OF_PART: Final = 64  # of a part of a delta
_SOME_PARTS: Final = 1024
_MOST_DELTAS: Final = 4096
_MOST_PACKS: Final = 4096
_MOST_OPEN: Final = 64  # files of packs: this process needs descriptors for other things, too
_HASH: Final = 20
_KINDS: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_BY_OFFSET, _BY_ID = 6, 7
_CHUNK: Final = 1 << 16
_INDEX_HEADER: Final = b"\xfftOc\0\0\0\2"
_FANOUT: Final = 8
_IDS: Final = _FANOUT + 1024
_FAR: Final = 1 << 31
_MODE: Final = re.compile(rb"[0-7]{5,6}")


ReadTree: TypeAlias = Callable[[str, bytes], dict[str, TreeEntry]]  # of the path and the id of a tree


class MissingObjectError(GitError):
    """An object is not in the repository."""


class _Pack(NamedTuple):
    ids: str  # paths, of the index of the pack
    data: str
    fanout: tuple[int, ...]

    def find(self, wanted: bytes, ids: int) -> int | None:
        """Return the offset of an object. `ids` is the index, open."""

        def object_at(position: int) -> bytes:
            return _pread(ids, _HASH, _IDS + position * _HASH)

        first = self.fanout[wanted[0] - 1] if wanted[0] else 0
        last = self.fanout[wanted[0]]
        # One id at a time: an index may claim millions.
        position = bisect_left(range(last), wanted, first, key=object_at)
        if position == last or object_at(position) != wanted:
            return None
        total = self.fanout[255]
        offsets = _IDS + total * (_HASH + 4)
        (offset,) = struct.unpack(">L", _pread(ids, 4, offsets + 4 * position))
        if offset < _FAR:
            return int(offset)
        far = _pread(ids, 8, offsets + 4 * total + 8 * (offset - _FAR))
        return int(struct.unpack(">Q", far)[0])


class ObjectStore:
    """The objects of a repository, whose directory the caller opened and closes.

    `most` bounds the bytes that are read in all, deltas included: small packs can hold what takes hours to unfold.
    When it is late, nothing more is read.
    """

    def __init__(self, common: Directory, most: int, late: Callable[[], bool] = lambda: False) -> None:
        self._common, self._left, self.late = common, most, late
        self._packs: list[_Pack] | None = None
        self._opened: OrderedDict[str, int] = OrderedDict()

    def close(self) -> None:
        for descriptor in self._opened.values():
            os.close(descriptor)
        self._opened.clear()

    def read(self, wanted: bytes, kind: str) -> bytes:
        """Return the content of an object.

        Raises MissingObjectError, LateError, and GitError for one that is damaged.
        """
        try:
            found = self._loose(wanted)
            if found is None and (place := self._find(wanted)) is not None:
                found = self._at(*place)
        except (OSError, zlib.error, struct.error, IndexError, ValueError) as error:
            raise GitError(f"object {wanted.hex()} cannot be read") from error
        actual, content = found or ("", b"")
        if not actual:
            borrows = ""
            with suppress(OSError):
                self._common.stat("objects/info/alternates")
                borrows = ", which borrows objects of another one (objects/info/alternates); these are not read"
            raise MissingObjectError(f"object {wanted.hex()} is not in the repository{borrows}")
        if actual != kind or object_id(actual, content) != wanted:
            raise GitError(f"object {wanted.hex()} is damaged")
        return content

    def tree_of(self, commit: bytes) -> bytes:
        """Return the id of the tree of a commit. Raises GitError."""
        first = self.read(commit, "commit").partition(b"\n")[0].split(b" ")
        if len(first) != 2 or first[0] != b"tree":  # noqa: PLR2004 - a word and an id
            raise GitError(f"commit {commit.hex()} is damaged")
        return bytes.fromhex(first[1].decode("ascii", "replace"))

    def read_tree(self, _path: str, wanted: bytes) -> dict[str, TreeEntry]:
        """Return the entries of a tree by name. Raises GitError, also for names that no tree should have."""
        content, position, entries = self.read(wanted, "tree"), 0, {}
        while position < len(content):
            end = content.find(b"\0", position)
            mode, _, name = content[position:end].partition(b" ")
            position = end + 1 + _HASH
            text = name.decode("utf-8", "surrogateescape")
            if end < 0 or position > len(content) or text in ("", ".", "..") or "/" in text or is_git(text):
                raise GitError(f"tree {wanted.hex()} has an entry {text!r}, which is refused")
            number = int(mode, 8) if _MODE.fullmatch(mode) else 0
            if number not in (DIRECTORY, LINK, SUBMODULE) and not stat.S_ISREG(number):
                raise GitError(f"tree {wanted.hex()} is damaged")
            entries[text] = TreeEntry(number, content[end + 1 : position])
        return entries

    def _loose(self, wanted: bytes) -> tuple[str, bytes] | None:
        name = wanted.hex()
        try:
            descriptor = self._common.open(f"objects/{name[:2]}/{name[2:]}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            stored = os.fstat(descriptor).st_size
            self._spend(stored)
            packed = read_all(descriptor, min(LARGEST, stored))
        finally:
            os.close(descriptor)
        inflate = zlib.decompressobj()
        content = inflate.decompress(packed, min(LARGEST, self._left + 1))
        self._spend(len(content))
        header, _, content = content.partition(b"\0")
        kind, _, size = header.partition(b" ")
        if inflate.unconsumed_tail or int(size) != len(content):
            raise ValueError("its size is wrong")
        return kind.decode("ascii"), content

    def _find(self, wanted: bytes) -> tuple[_Pack, int] | None:
        """Return the pack and the offset of an object."""
        for pack in self._all_packs():
            self._spend(0)
            offset = pack.find(wanted, self._file(pack.ids))
            if offset is not None:
                return pack, offset
        return None

    def _at(self, pack: _Pack, offset: int) -> tuple[str, bytes]:
        deltas: list[bytes] = []
        found: tuple[str, bytes] | None = None
        while found is None:
            if len(deltas) > _MOST_DELTAS or sum(map(len, deltas)) > LARGEST:
                raise ValueError("too many deltas")
            data = self._file(pack.data)
            kind, size, begin = _object_header(data, offset)
            if kind in _KINDS:
                found = _KINDS[kind], self._inflated(data, begin, size)
            elif kind == _BY_OFFSET:
                distance, used = read_offset(os.pread(data, 16, begin), 0)
                begin += used
                if not 0 < distance < offset:
                    raise ValueError("a delta has no base")
                deltas.append(self._inflated(data, begin, size))
                offset -= distance
            elif kind == _BY_ID:
                base = _pread(data, _HASH, begin)
                deltas.append(self._inflated(data, begin + _HASH, size))
                found = self._loose(base)
                place = self._find(base) if found is None else None
                pack, offset = place or (pack, offset)
                found = found or (None if place else ("", b""))
            else:
                raise ValueError("unknown kind of object")
        name, content = found
        for delta in reversed(deltas):
            self._spend(_size(delta, _size(delta, 0)[1])[0])
            content = _apply(delta, content, self._spend)
        return name, content

    def _inflated(self, data: int, begin: int, size: int) -> bytes:
        """Unfold a part of a pack, also a delta, within what may be read."""
        self._spend(size)
        if size > LARGEST:
            raise ValueError("too large")
        inflate, parts, left = zlib.decompressobj(), [], size
        while not inflate.eof:
            packed = inflate.unconsumed_tail or os.pread(data, _CHUNK, begin)
            if not packed:
                raise ValueError("the pack is too short")
            begin += 0 if inflate.unconsumed_tail else len(packed)
            part = inflate.decompress(packed, left + 1)
            left -= len(part)
            parts.append(part)
            if left < 0:
                break
        if left:
            raise ValueError("its size is wrong")
        return b"".join(parts)

    def _spend(self, size: int) -> None:
        self._left -= size + _COST
        if self._left < 0:
            raise GitError("its objects are too large to be read")
        if self.late():
            raise LateError("the time was up")

    def _all_packs(self) -> list[_Pack]:
        if self._packs is None:
            self._packs = []
            names: list[str] = []
            with suppress(FileNotFoundError):
                names = [name for name in os.listdir(self._common.directory("objects/pack")) if name.endswith(".idx")]  # noqa: PTH208 - by descriptor
            for name in sorted(names)[:_MOST_PACKS]:
                ids, data = f"objects/pack/{name}", f"objects/pack/{name.removesuffix('.idx')}.pack"
                # One is being removed, or its index has another version: another pack may have what it has; otherwise
                # the object is reported as missing.
                with suppress(OSError, ValueError):
                    self._common.stat(data)
                    head = _pread(self._file(ids), _IDS, 0)
                    fanout = struct.unpack_from(">256L", head, _FANOUT)
                    if head.startswith(_INDEX_HEADER) and list(fanout) == sorted(fanout):
                        self._packs.append(_Pack(ids, data, fanout))
        return self._packs

    def _file(self, path: str) -> int:
        """Return the descriptor of a file, which stays open for a while. Raises OSError."""
        descriptor = self._opened.pop(path, None)
        self._opened[path] = descriptor = self._common.open(path) if descriptor is None else descriptor
        if len(self._opened) > _MOST_OPEN:
            os.close(self._opened.popitem(last=False)[1])
        return descriptor


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    if not 0 <= size <= LARGEST:
        raise ValueError("too large")
    content = os.pread(descriptor, size, offset)
    if len(content) != size:
        raise ValueError("the file is too short")
    return content


def _object_header(descriptor: int, offset: int) -> tuple[int, int, int]:
    """Return the kind and the size of an object of a pack, and where its content begins."""
    content = os.pread(descriptor, 16, offset)
    byte, position = content[0], 1
    kind, size, shift = byte >> 4 & 7, byte & 15, 4
    while byte & 128:
        byte = content[position]
        size |= (byte & 127) << shift
        shift, position = shift + 7, position + 1
    return kind, size, offset + position


def _apply(delta: bytes, base: bytes, spend: Callable[[int], None]) -> bytes:
    """Return what a delta makes of its base. Raises ValueError and IndexError, and what `spend` does."""
    before, position = _size(delta, 0)
    after, position = _size(delta, position)
    if before != len(base) or after > LARGEST:
        raise ValueError("a delta is for another object")
    made, parts = bytearray(), 0
    while position < len(delta):
        if not parts % _SOME_PARTS:
            spend(_SOME_PARTS * _COST_OF_PART)
        parts += 1
        command = delta[position]
        position += 1
        if command & 128:
            numbers = []
            for bit in range(7):
                numbers.append(delta[position] if command & 1 << bit else 0)
                position += bool(command & 1 << bit)
            offset = numbers[0] | numbers[1] << 8 | numbers[2] << 16 | numbers[3] << 24
            length = numbers[4] | numbers[5] << 8 | numbers[6] << 16 or 0x10000
            part = base[offset : offset + length]
        else:
            length = command
            part = delta[position : position + length]
            position += length
        made += part
        if not command or len(part) != length or len(made) > after:
            raise ValueError("a delta is damaged")
    if len(made) != after:
        raise ValueError("a delta is damaged")
    return bytes(made)


def _size(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return value, position


def walk_tree(read: ReadTree, root: bytes, path: str = "") -> Iterator[tuple[str, TreeEntry]]:
    """Yield what a tree has, without directories, by path. Raises GitError."""
    waiting = [(path, root)]
    while waiting:
        above, tree = waiting.pop()
        for name, entry in read(above, tree).items():
            below = _below(above, name)
            if entry.mode == DIRECTORY:
                waiting.append((below, entry.object_id))
            else:
                yield below, entry


def tree_changes(read: ReadTree, before: bytes, read_after: ReadTree, after: bytes) -> dict[str, TreeEntry | None]:
    """Return what `before` has at each path where two trees differ; None where it has nothing.

    Directories that are equal are not read. Raises GitError.
    """
    changes: dict[str, TreeEntry | None] = {}
    waiting = [("", before, after)] if before != after else []
    while waiting:
        path, old, new = waiting.pop()
        ours, theirs = read(path, old), read_after(path, new)
        for name in ours.keys() | theirs.keys():
            below = _below(path, name)
            was, is_now = ours.get(name), theirs.get(name)
            if was == is_now:
                continue
            if was and is_now and was.mode == is_now.mode == DIRECTORY:
                waiting.append((below, was.object_id, is_now.object_id))
                continue
            if is_now:
                changes |= dict.fromkeys(dict(_beneath(read_after, below, is_now)))
            if was:
                changes |= dict(_beneath(read, below, was))
    return changes


def _below(above: str, name: str) -> str:
    """Raises GitError for a path that no file can have: trees of a repository can be as deep as there are trees."""
    path = f"{above}/{name}" if above else name
    if len(path) > LONGEST:
        raise GitError("it has paths that are too long")
    return path


def _beneath(read: ReadTree, path: str, entry: TreeEntry) -> Iterable[tuple[str, TreeEntry]]:
    return walk_tree(read, entry.object_id, path) if entry.mode == DIRECTORY else ((path, entry),)
