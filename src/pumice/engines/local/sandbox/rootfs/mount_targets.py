"""Where a mount goes: names are resolved inside the new root, so that no link of an image leads out of it."""

from __future__ import annotations

import os
import stat

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.sandbox_errors import DEVICE, MOUNT, StartError


class Tree:
    """A part of the host's file system, taken before the change of root, to be attached after it."""

    def __init__(self, source: str, target: str, *, read_only: bool = False, kind: str = MOUNT) -> None:
        self.source = source
        self.target = target
        try:
            self._descriptor = syscalls.clone_tree(source)
            if read_only:
                syscalls.make_read_only(self._descriptor)
            self._is_directory = stat.S_ISDIR(os.stat(source).st_mode)
        except FileNotFoundError as error:
            what = "the device" if kind == DEVICE else "the source of the mount at " + target
            raise StartError(kind, f"{source}: {what} does not exist") from error
        except OSError as error:
            raise StartError(
                kind, f"{source}: cannot be mounted at {target}: {os.strerror(error.errno or 0)}"
            ) from error

    def attach(self) -> None:
        self.attach_at(make_place(self.target, is_directory=self._is_directory))

    def attach_at(self, place: str) -> None:
        try:
            syscalls.attach_tree(self._descriptor, place)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise StartError(MOUNT, f"{self.source}: cannot be mounted at {self.target}: {why}") from error
        os.close(self._descriptor)


class Cover(Tree):
    """Hides a directory. One that is not there is not made: even its name may be nobody's business."""

    def attach(self) -> None:
        if os.path.isdir(self.target):
            self.attach_at(os.path.realpath(self.target))


def make_place(target: str, *, is_directory: bool) -> str:
    """The resolved path of a mount point, made if it is missing."""
    place = os.path.realpath(target)
    try:
        if os.path.lexists(place):
            if os.path.isdir(place) != is_directory:
                found, wanted = ("directory", "file") if is_directory is False else ("file", "directory")
                raise StartError(MOUNT, f"{target}: a {found} is there, a {wanted} cannot be mounted over it")
            return place
        if is_directory:
            os.makedirs(place)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise StartError(MOUNT, f"{target}: the place for a mount cannot be made: {why}") from error
    return place
