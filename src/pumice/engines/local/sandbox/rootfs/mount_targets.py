"""Mounts of host paths. Targets are resolved in the new root, so no link of an image leads out of it.

Guards of a mount are attached by descriptors below that mount: pods that run already can change links in what they
share, so a path could lead elsewhere by then.
"""

from __future__ import annotations

import errno
import os
import stat

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.sandbox_errors import DEVICE, MOUNT, StartError
from pumice.engines.local.sandbox.specs import EMPTY_DIRECTORY, READ_ONLY, Guard, Mount

Source = tuple[str, str]  # a path, and the volume below which no link is followed; empty if all links are
Tree = int | OSError  # the descriptor of a cloned tree, or why there is none


class HostMount:
    """A mount of the host, cloned before the change of root, unless a tree is given, and attached after it."""

    def __init__(
        self, source: Source, target: str, *, read_only: bool = False, kind: str = MOUNT, tree: Tree | None = None
    ) -> None:
        self.source, volume = source
        self.target = target
        try:
            if isinstance(tree, OSError):
                raise tree
            self._tree = syscalls.clone_tree(*source) if tree is None else tree
            attributes = syscalls.NO_SET_ID | (syscalls.NO_DEVICES if kind != DEVICE else 0)
            syscalls.restrict_mount(self._tree, attributes | (syscalls.READ_ONLY if read_only else 0))
            self._is_directory = stat.S_ISDIR(os.fstat(self._tree).st_mode)
        except FileNotFoundError as error:
            what = "the device" if kind == DEVICE else "the source of the mount at " + target
            raise StartError(kind, f"{self.source}: {what} does not exist") from error
        except OSError as error:
            if error.errno == errno.ELOOP and volume:
                what = self.source if volume == "/" else f"subPath {os.path.relpath(self.source, volume)}"
                raise StartError(kind, f"{target}: {what}: has a symbolic link, which is not followed") from error
            raise self._refused(kind, error) from error

    def attach(self) -> None:
        place = self._mount_point()
        self.attach_at(place)
        if isinstance(place, int):
            os.close(place)

    def _mount_point(self) -> str | int:
        place = _open_mount_point(self.target, is_directory=self._is_directory)
        return make_mount_point(self.target, is_directory=self._is_directory) if place is None else place

    def close(self) -> None:
        os.close(self._tree)

    def attach_at(self, place: str | int) -> None:
        try:
            syscalls.attach_tree(self._tree, place)
        except OSError as error:
            raise self._refused(MOUNT, error) from error
        self.close()

    def _refused(self, kind: str, error: OSError) -> StartError:
        return StartError(kind, f"{self.source}: cannot be mounted at {self.target}: {os.strerror(error.errno or 0)}")


class GuardedMount(HostMount):
    """A mount of the host with guards below it. `empty` has the directory and the file that stand for hidden ones."""

    def __init__(self, mount: Mount, tree: Tree | None, empty: dict[str, str]) -> None:
        super().__init__((mount.source, mount.volume), mount.target, read_only=mount.read_only, tree=tree)
        self._guards = [(each, _clone_empty(empty[each.kind]) if each.kind in empty else None) for each in mount.guards]

    def attach_at(self, place: str | int) -> None:
        try:
            syscalls.attach_tree(self._tree, place)
            for guard, cover in self._guards:
                self._attach_guard(guard, cover)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StartError(MOUNT, f"{self.target}: has a symbolic link, which is not followed") from error
            raise self._refused(MOUNT, error) from error
        self.close()

    def _attach_guard(self, guard: Guard, cover: int | None) -> None:
        """A path that does not exist any more is passed over, and so is one that has become of another kind."""
        try:
            place = syscalls.open_beneath(self._tree, guard.path)
        except (FileNotFoundError, NotADirectoryError):
            place = None
        if place is not None:
            is_directory = stat.S_ISDIR(os.fstat(place).st_mode)
            if cover is None:
                cover = syscalls.clone_opened(place)
                if guard.kind == READ_ONLY:
                    syscalls.restrict_mount(cover, syscalls.READ_ONLY)
                syscalls.attach_tree(cover, place)
            elif is_directory == (guard.kind == EMPTY_DIRECTORY):
                syscalls.attach_tree(cover, place)
            os.close(place)
        if cover is not None:
            os.close(cover)


def _clone_empty(path: str) -> int:
    tree = syscalls.clone_tree(path)
    syscalls.restrict_mount(tree, syscalls.READ_ONLY | syscalls.NO_SET_ID | syscalls.NO_DEVICES)
    return tree


class Cover(HostMount):
    """Hides a directory or a file of the root. A missing one is not created: that would reveal its name."""

    def __init__(self, empty: str, target: str) -> None:
        super().__init__((empty, ""), target, read_only=True)

    def attach(self) -> None:
        if os.path.exists(self.target) and os.path.isdir(self.target) == self._is_directory:
            super().attach()
        else:
            self.close()

    def _mount_point(self) -> str | int:
        place = _open_mount_point(self.target, is_directory=self._is_directory)
        return os.path.realpath(self.target) if place is None else place


def _open_mount_point(target: str, *, is_directory: bool) -> int | None:
    """Open a mount point that is there, as most are; None if there is more to say about it, see `make_mount_point`.

    Without links on the way, the path is what it seems, and one call does what a look at each of its parts would.
    """
    path = os.path.normpath(target)
    if path == "/" or f"{path}/".startswith("/proc/"):
        return None
    try:
        place = syscalls.open_without_links(path)
    except OSError:
        return None
    if stat.S_ISDIR(os.fstat(place).st_mode) == is_directory:
        return place
    os.close(place)
    return None


def make_mount_point(target: str, *, is_directory: bool) -> str:
    """Return the resolved path of a mount point, which is created if it is missing."""
    try:
        path = os.path.realpath(target)
    except OSError as error:
        # A pod replaces a link of the path meanwhile.
        reason = os.strerror(error.errno or 0)
        raise StartError(MOUNT, f"{target}: the mount point cannot be created: {reason}") from error
    if path == "/" or any(f"{each}/".startswith("/proc/") for each in (path, os.path.normpath(target))):
        # A mount over the root would be at `/..`; programs trust /proc, and its links lead out of any root.
        raise StartError(MOUNT, f"{target}: the mount point cannot be created: nothing is mounted over {path}")
    try:
        if os.path.lexists(path):
            if os.path.isdir(path) != is_directory:
                found, wanted = ("file", "directory") if is_directory else ("directory", "file")
                raise StartError(MOUNT, f"{target}: is a {found}, a {wanted} cannot be mounted over it")
            return path
        if is_directory:
            os.makedirs(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise StartError(MOUNT, f"{target}: the mount point cannot be created: {reason}") from error
    return path
