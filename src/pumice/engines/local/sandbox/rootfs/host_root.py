"""The host's file system as a container's root, below a writable layer.

Only system directories are shown, not data. For a user who may not uncover /proc and /dev the kernel refuses one
overlay over the whole root, so each of them gets its own overlay. A directory that contains another mount, or in which
a missing mount point is needed, is split: its entries are shown one by one. An overlay also keeps a container from the
sockets below it; where the kernel refuses one, the directory is bound read-only and sockets are left out.

What there is to show is the same for many containers. job-init looks once (`look`), and each container builds it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES

_PRIVATE = {"tmp": 0o1777, "run": 0o755, "proc": 0o555, "sys": 0o555, "dev": 0o755, "home": 0o755, "root": 0o700}
# Empty ones, which many programs and people expect.
_EMPTY = {"media": 0o755, "mnt": 0o755, "srv": 0o755}
_RESTRICTED = syscalls.READ_ONLY | syscalls.NO_SET_ID | syscalls.NO_DEVICES


class Host(NamedTuple):
    """The host's file system as job-init sees it."""

    root: str  # where it is
    etc: str  # where its /etc is, or a copy of it
    skeleton: str | None  # directories that are writable for the job
    mount_points: Sequence[str]


class HostView(NamedTuple):
    """What of the host's file system a container gets, outer directories first. Plain values, which can be sent."""

    hidden: Sequence[str]
    wanted: Sequence[str]  # mount points that do not exist
    directories: list[tuple[str, int]]  # without content of the host, with their modes
    links: list[tuple[str, str]]
    overlays: list[tuple[str, int, list[str]]]  # with their modes and lower layers
    files: list[str]


def look(host: Host, hidden: Iterable[str], targets: Iterable[str]) -> HostView:
    """Return what a container sees that has these directories hidden and needs these mount points."""
    paths = {os.path.normpath(path) for path in hidden}
    view = _new_view(
        [*paths, *{os.path.realpath(path) for path in paths} - paths],
        [os.path.realpath(target) for target in targets if not os.path.exists(target)],
    )
    with os.scandir(f"{host.root}/") as entries:
        _add(view, host, [entry for entry in entries if entry.name in SYSTEM_DIRECTORIES])
    return view


def _new_view(hidden: Sequence[str], wanted: Sequence[str]) -> HostView:
    return HostView(hidden, wanted, [], [], [], [])


def _add(view: HostView, host: Host, entries: Iterable[os.DirEntry[str]]) -> None:
    for entry in entries:
        path = entry.path.removeprefix(host.root)
        if entry.is_symlink():
            view.links.append((path, os.readlink(entry.path)))
        elif entry.is_file():
            view.files.append(path)
        elif not entry.is_dir():
            continue
        elif path in view.hidden or not os.access(entry.path, os.R_OK | os.X_OK):
            view.directories.append((path, 0o755))
        else:
            _add_directory(view, host, path, stat.S_IMODE(os.stat(entry.path).st_mode))


def _add_directory(view: HostView, host: Host, path: str, mode: int) -> None:
    source = host.root + path
    lower = host.etc if path == "/etc" else source
    with os.scandir(source) as content:
        entries = list(content)
    if not entries:
        # The layer's own directory serves as well as an overlay.
        view.directories.append((path, mode))
    elif any(point.startswith(f"{lower.removeprefix(host.root)}/") for point in host.mount_points):
        view.directories.append((path, mode))
        _add(view, host, entries)
    else:
        skeleton = [host.skeleton + path] if host.skeleton and os.path.isdir(host.skeleton + path) else []
        view.overlays.append((path, mode, [*skeleton, lower]))


class HostRoot:
    """Binds the writable layer as the root and mounts an overlay of host and layer over each of its directories."""

    def __init__(self, root: str, layer: str, work: str, host: Host) -> None:
        self._root = root
        self._layer = layer
        self._work = work
        self._host = host
        self._overlays: list[str] = []

    def build(self, view: HostView) -> list[str]:
        """Returns the directories with an overlay, each of which is a mount point."""
        syscalls.bind_restricted(self._layer, self._root, syscalls.NO_SET_ID | syscalls.NO_DEVICES)
        for name, mode in (_PRIVATE | _EMPTY).items():
            self._make_directory(f"/{name}", mode)
        self._show(view)
        return self._overlays

    def _make_directory(self, path: str, mode: int) -> None:
        """Its parents exist, and the umask is 0."""
        try:
            os.mkdir(self._root + path, mode)
        except FileExistsError:
            os.chmod(self._root + path, mode)

    def _show(self, view: HostView) -> None:
        for path, mode in view.directories:
            self._make_directory(path, mode)
        for path, target in view.links:
            with suppress(FileExistsError):
                os.symlink(target, self._root + path)
        for path, mode, layers in view.overlays:
            self._make_directory(path, mode)
            if self._mount_overlay(path, layers):
                continue
            if any(each.startswith(path + "/") for each in view.wanted):
                below = _new_view(view.hidden, view.wanted)
                with os.scandir(self._host.root + path) as entries:
                    _add(below, self._host, entries)
                self._show(below)
            else:
                self._bind(path)
        for path in view.files:
            self._bind(path)

    def _bind(self, path: str) -> None:
        target = self._root + path
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        syscalls.bind_restricted(self._host.root + path, target, _RESTRICTED)

    def _mount_overlay(self, path: str, layers: Sequence[str]) -> bool:
        """False where the kernel refuses it: the file system does not support overlays."""
        work = f"{self._work}/{len(self._overlays)}"
        with suppress(FileExistsError):
            os.mkdir(work)
        try:
            syscalls.mount_overlay(layers, self._layer + path, work, self._root + path)
        except OSError:
            return False
        self._overlays.append(path)
        return True
