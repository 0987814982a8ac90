"""Finds the local file or directory of `pumice cp`, without following links that a pod may have made.

A link in a directory that only the user writes to leads where it leads, as with `cp`. Pods can write to some
directories, such as the working directory, and can make links there at any time: those are refused.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pumice.engines.local.host_access.consent import host_volumes
from pumice.store.files.run_store import StoredRun
from pumice.store.options import decode_options
from pumice.store.run_errors import StoreError

_MOST_LINKS: Final = 40  # as in the kernel
_NO_LINK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkRefusedError(Exception):
    """A link that a pod may have made is on the way: `link`. The whole path leads to `real` now."""

    def __init__(self, link: str, real: str) -> None:
        super().__init__(link)
        self.link = link
        self.real = real


def writable_directories(run: StoredRun) -> list[Path]:
    """Return what the pods of a run can write to of this machine; all of it if the record does not say what."""
    try:
        settings = decode_options(run.record.options).settings
        volumes = host_volumes([{"spec": task.pod_spec} for task in run.written_job().spec.tasks])
    except (msgspec.ValidationError, StoreError):
        return [Path("/")]
    workdir = [settings.workdir] if settings.share_workdir and not settings.workdir_read_only else []
    mounts = [mount.path for mount in settings.mounts if not mount.read_only]
    return [*workdir, *mounts, *(each.real for each in volumes if not each.read_only), settings.state / "claims"]


class Location(NamedTuple):
    """An opened directory, and a name in it: `.`, or that of a file, or of nothing. Who opens it follows no link."""

    directory: int
    name: str
    path: str  # of the directory
    is_writable: bool  # by pods: the directory

    def for_copy(self, source: str) -> Location:
        """Return where to make the copy of a path: in this if it is a directory, else as this.

        Raises LinkRefusedError and OSError.
        """
        name = Path(os.path.normpath(source)).name
        if self.name != "." or name in ("", ".."):
            return self
        if self.is_writable and _link_target(name, self.directory) is not None:
            link = f"{self.path}/{name}"
            raise LinkRefusedError(link, os.path.realpath(link))
        return self._replace(name=name)

    def opened(self) -> int:
        """Return a descriptor that only says which file or directory this is. Raises OSError."""
        return os.open(self.name, _NO_LINK, dir_fd=self.directory)


@contextmanager
def located(path: Path, writable: Iterable[Path]) -> Iterator[Location]:
    """Yield where a path leads. Raises LinkRefusedError for a link in a directory that pods write to, and OSError.

    Every directory on the way is opened once, from the one before, so a link that is put into the path later has no
    effect.
    """
    areas = set[tuple[int, int]]()  # what directories have under all their names
    for each in writable:
        with suppress(OSError):
            found = each.stat()
            areas.add((found.st_dev, found.st_ino))
    way = [_Directory.opened(None, "/", areas)]
    try:
        yield _walk(way, deque(_names(str(Path.cwd() / path))), areas)
    finally:
        _leave(way, 0)


def _walk(way: list[_Directory], names: deque[str], areas: set[tuple[int, int]]) -> Location:
    """Open the directories of a path, from `/` on, which is in `way`. A link is replaced by the names it has."""
    links = 0
    while names:
        here, name = way[-1], names.popleft()
        if name == "..":
            _leave(way, max(1, len(way) - 1))
        elif (target := _link_target(name, here.descriptor)) is None:
            try:
                way.append(_Directory.opened(here, name, areas))
            except (FileNotFoundError, NotADirectoryError):
                if names:
                    raise
                return Location(here.descriptor, name, here.path, here.is_writable)
        elif here.is_writable:
            link = f"{here.path}/{name}"
            raise LinkRefusedError(link, os.path.realpath("/".join((link, *names))))
        elif (links := links + 1) > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        else:
            names.extendleft(reversed(_names(target)))
            _leave(way, 1 if target.startswith("/") else len(way))
    return Location(way[-1].descriptor, ".", way[-1].path, way[-1].is_writable)


def _leave(way: list[_Directory], count: int) -> None:
    """Go back until so many directories are left."""
    while len(way) > count:
        os.close(way.pop().descriptor)


class _Directory(NamedTuple):
    descriptor: int
    path: str
    is_writable: bool  # by pods

    @classmethod
    def opened(cls, parent: _Directory | None, name: str, areas: set[tuple[int, int]]) -> _Directory:
        """Open a directory in another one. Pods write to it if they write to that, or if it is one of `areas`."""
        descriptor = os.open(name, _NO_LINK | os.O_DIRECTORY, dir_fd=parent.descriptor if parent else None)
        found = os.fstat(descriptor)
        is_writable = (parent is not None and parent.is_writable) or (found.st_dev, found.st_ino) in areas
        return cls(descriptor, f"{parent.path}/{name}" if parent else "", is_writable)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _link_target(name: str, directory: int) -> str | None:
    """Return where a link leads; None if it is none, or is not there."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
