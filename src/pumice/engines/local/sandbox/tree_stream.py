"""A file or a directory as a stream of bytes, to copy it into a pod or out of it. Neither side trusts the other.

An entry is a line of JSON; the content of a file follows in chunks, each after its length, up to one of length 0. The
reader creates regular files, directories, and links that lead nowhere else; it opens nothing through a link, so what it
writes is below its target, whatever the stream says and whatever is swapped meanwhile. It sets no set-id bits.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple

DIRECTORY, FILE, LINK, SKIPPED, END = "directory", "file", "link", "skipped", "end"
_CHUNK = 1 << 18
_LENGTH = struct.Struct("<I")
_LONGEST_LINE = 1 << 16
_DEEPEST = 256
_MOST_LINKS = 100_000  # which are kept in memory
_PERMISSIONS = 0o777
_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe or a device must not block

Path = tuple[str, ...]


class StreamError(Exception):
    """The stream is not one, or ends too early."""


def send(path: str, out: BinaryIO) -> None:
    """Write a file or a directory with all that is below it. Raises OSError if the path itself cannot be read."""
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    elif stat.S_ISREG(found.st_mode):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    else:
        raise OSError(22, "neither a file nor a directory", path)
    try:
        _send_opened(descriptor, (), out)
    finally:
        os.close(descriptor)
    _write_line(out, kind=END)
    out.flush()


def _send_opened(descriptor: int, path: Path, out: BinaryIO) -> None:
    found = os.fstat(descriptor)
    about = {"path": path, "mode": stat.S_IMODE(found.st_mode) & _PERMISSIONS}
    if stat.S_ISDIR(found.st_mode):
        _write_line(out, kind=DIRECTORY, **about)
        for name in sorted(os.listdir(descriptor)):
            _send_below(descriptor, (*path, name), out)
    elif stat.S_ISREG(found.st_mode):
        _write_line(out, kind=FILE, **about)
        while chunk := os.read(descriptor, _CHUNK):
            out.write(_LENGTH.pack(len(chunk)) + chunk)
        out.write(_LENGTH.pack(0))
    else:
        _write_line(out, kind=SKIPPED, path=path, why="not a file, directory or link")


def _send_below(directory: int, path: Path, out: BinaryIO) -> None:
    """What cannot be read is reported and left out."""
    name = path[-1]
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            _write_line(out, kind=LINK, path=path, target=os.readlink(name, dir_fd=directory))
            return
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) or len(path) > _DEEPEST:
            why = "too deep" if len(path) > _DEEPEST else "not a file, directory or link"
            _write_line(out, kind=SKIPPED, path=path, why=why)
            return
        descriptor = os.open(name, os.O_RDONLY | _OPEN, dir_fd=directory)
    except OSError as error:
        _write_line(out, kind=SKIPPED, path=path, why=(error.strerror or str(error)).lower(), error=True)
        return
    try:
        _send_opened(descriptor, path, out)
    finally:
        os.close(descriptor)


def _write_line(out: BinaryIO, **entry: Any) -> None:
    out.write(json.dumps(entry).encode() + b"\n")


class TreeReader:
    """Creates what a stream says, as `name` in a directory that the caller trusts.

    `skipped` gets the path and the reason of what was left out, and whether that is an error.
    """

    def __init__(self, source: BinaryIO, directory: int, name: str, skipped: Callable[[str, str, bool], None]) -> None:
        self.source = source
        self.directory = directory
        self.name = name
        self.skipped = skipped
        self._links: dict[Path, str] = {}  # made at the end

    def read(self) -> None:
        """Raises OSError if the target itself cannot be written, and StreamError."""
        root = True
        while (entry := self.read_entry())["kind"] != END:
            path = _path(entry)
            if root != (not path):
                raise StreamError("its first entry is not the root")
            try:
                self._create(entry, path)
            except OSError as error:
                if root:
                    raise
                self.skipped("/".join(path), (error.strerror or str(error)).lower(), True)
            root = False
        for path, target in self._links.items():
            self._make_link(path, target)

    def _create(self, entry: dict[str, Any], path: Path) -> None:
        match entry["kind"]:
            case "directory":
                with self.opened_parent(path) as (parent, name):
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=parent)
                    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=parent)
                    try:
                        os.fchmod(descriptor, (_mode(entry) | 0o700) & ~_umask())
                    finally:
                        os.close(descriptor)
            case "file":
                self._write_file(path, _mode(entry))
            case "link":
                if len(self._links) >= _MOST_LINKS:
                    raise StreamError(f"more than {_MOST_LINKS} links")
                self._links[path] = str(entry.get("target"))
            case "skipped":
                self.skipped("/".join(path), str(entry.get("why")), bool(entry.get("error")))
            case kind:
                raise StreamError(f"unknown entry {kind!r}")

    def _write_file(self, path: Path, mode: int) -> None:
        """A new file that comes only in part is removed; a file that was there before then ends where that part ends.

        If it cannot be written, its content is read all the same: the next entry follows it.
        """
        try:
            with self.opened_parent(path) as (parent, name):
                descriptor, is_new = _opened_file(name, mode, parent)
                is_whole = False
                try:
                    for chunk in self.read_chunks():
                        view = memoryview(chunk)
                        while view:
                            view = view[os.write(descriptor, view) :]
                    is_whole = True
                finally:
                    os.close(descriptor)
                    if is_new and not is_whole:
                        with suppress(OSError):
                            os.unlink(name, dir_fd=parent)
        except OSError:
            for _ in self.read_chunks():
                continue
            raise

    @contextmanager
    def opened_parent(self, path: Path) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the directory of an entry, reached without any link, and the name in it."""
        names = (self.name, *path)
        opened = os.dup(self.directory)
        try:
            for name in names[:-1]:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened, names[-1]
        finally:
            os.close(opened)

    def _make_link(self, path: Path, target: str) -> None:
        if not self._stays_inside(path, target):
            self.skipped("/".join(path), f"a link that leads outside, to {target}", False)
            return
        try:
            with self.opened_parent(path) as (parent, name):
                with suppress(FileNotFoundError):
                    if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                        os.unlink(name, dir_fd=parent)
                os.symlink(target, name, dir_fd=parent)
        except OSError as error:
            self.skipped("/".join(path), (error.strerror or str(error)).lower(), True)

    def _stays_inside(self, path: Path, target: str) -> bool:
        """Whether a link leads below the root. `..` after another link could lead anywhere."""
        if target.startswith("/") or "\0" in target or not path:
            return False
        current, through_link = list(path[:-1]), False
        for name in target.split("/"):
            if name == "..":
                if through_link or not current:
                    return False
                current.pop()
            elif name not in ("", "."):
                current.append(name)
                through_link = through_link or tuple(current) in self._links
        return True

    def read_entry(self) -> dict[str, Any]:
        """Return the next entry, whose content `read_chunks` yields. Raises StreamError."""
        line = self.source.readline(_LONGEST_LINE)
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StreamError("it ends too early" if not line.endswith(b"\n") else "not JSON") from error
        if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
            raise StreamError("not an entry")
        return entry

    def read_chunks(self) -> Iterator[bytes]:
        while True:
            (length,) = _LENGTH.unpack(self.read_exactly(_LENGTH.size))
            if not length:
                return
            if length > _CHUNK:
                raise StreamError("a chunk is too long")
            yield self.read_exactly(length)

    def read_exactly(self, length: int) -> bytes:
        data = self.source.read(length)
        if len(data) < length:
            raise StreamError("it ends too early")
        return data


def _opened_file(name: str, mode: int, parent: int) -> tuple[int, bool]:
    """Return a descriptor of an empty file, and whether it is a new one."""
    with suppress(FileExistsError):
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, mode, dir_fd=parent), True
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | _OPEN, mode, dir_fd=parent)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(17, "exists, and is not a file")
        os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, False


def _path(entry: dict[str, Any]) -> Path:
    """The path of an entry, if its names are names."""
    found = entry.get("path", ())
    if not isinstance(found, list | tuple) or len(found) > _DEEPEST:
        raise StreamError("not a path")
    for name in found:
        if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
            raise StreamError(f"not a name: {name!r}")
    return tuple(found)


def _mode(entry: dict[str, Any]) -> int:
    mode = entry.get("mode", 0o644)
    return mode & _PERMISSIONS if isinstance(mode, int) else 0o644


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def target_of(path: str, source: str) -> tuple[str, str]:
    """Return directory and name of the copy of `source` at `path`: in it if it is a directory, else as it."""
    name = os.path.basename(os.path.normpath(source))
    if os.path.isdir(path) and name not in ("", ".", "..", "/"):
        return path, name
    whole = os.path.normpath(path)
    return os.path.dirname(whole) or ".", os.path.basename(whole)


def receive(source: BinaryIO, path: str, name: str, skipped: Callable[[str, str, bool], None]) -> None:
    """Create what a stream says at `path`, or in it if it is a directory. Raises OSError and StreamError."""
    directory, own = target_of(path, name)
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        TreeReader(source, opened, own, skipped).read()
    finally:
        os.close(opened)


class Copy(NamedTuple):
    """`into`: from the input into a container, as `name` if the path is a directory; else from there to the output."""

    path: str
    into: bool = False
    name: str = ""

    def run(self, stdin: int, stdout: int, stderr: int) -> int:
        """Write to `stderr` what is left out on the way in, one JSON array per line; return 1 if that was an error."""
        if not self.into:
            with open(stdout, "wb", buffering=_CHUNK, closefd=False) as out:
                send(self.path, out)
            return 0
        failed = False

        def skipped(path: str, why: str, error: bool) -> None:  # noqa: FBT001 - a callback
            nonlocal failed
            failed = failed or error
            os.write(stderr, json.dumps([path, why, error]).encode() + b"\n")

        with open(stdin, "rb", buffering=_CHUNK, closefd=False) as source:
            receive(source, self.path, self.name, skipped)
        return int(failed)


def is_denied(error: BaseException) -> bool:
    """Whether the user may not read or write the file."""
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def reason_of(error: OSError | StreamError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else f"bad stream: {error}"
