"""The host's own file system as a container's root, with a layer of the container's above.

The kernel refuses to lay one layer over the whole root for who may not uncover /proc and /dev. So there is one for
each directory of the system. Others are bound read-only: who writes to a data directory that was not mounted shall
learn it at once, and not lose what was written. A directory in which something else is mounted, or into which
something missing shall be mounted, is taken apart: its entries are shown one by one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs import overlay
from pumice.engines.local.sandbox.rootfs.job_filesystem import Ground

_SYSTEM = frozenset(
    {"bin", "etc", "lib", "lib32", "lib64", "libx32", "mnt", "media", "opt", "sbin", "srv", "usr", "var"}
)
_FRESH = {"tmp": 0o1777, "run": 0o755, "proc": 0o555, "sys": 0o555, "dev": 0o755, "home": 0o755, "root": 0o700}
_NEVER_SHOWN = frozenset({"tmp", "run", "proc", "sys", "dev", "lost+found"})


class HostRoot:
    """The layer is bound as the root, and over each of its directories lies that directory merged with the host's."""

    def __init__(self, root: str, layer: str, work: str, ground: Ground) -> None:
        self._root = root
        self._layer = layer
        self._work = work
        self._ground = ground
        self._hidden: set[str] = set()
        self._wanted: list[str] = []
        self._merged: list[str] = []

    def build(self, hidden: Iterable[str], targets: Iterable[str]) -> list[str]:
        """Returns the directories that were merged, each of which is a mount of its own."""
        syscalls.attach_tree(syscalls.clone_tree(self._layer), self._root)
        for name, mode in _FRESH.items():
            self._make(f"/{name}", mode)
        self._hidden = {os.path.normpath(path) for path in hidden} | {os.path.realpath(path) for path in hidden}
        self._wanted = [os.path.realpath(target) for target in targets if not os.path.exists(target)]
        self._show_entries("/", is_system=False)
        return self._merged

    def _make(self, path: str, mode: int) -> None:
        """Those above it are there already, and the mask of modes is empty."""
        try:
            os.mkdir(self._root + path, mode)
        except FileExistsError:
            os.chmod(self._root + path, mode)

    def _show_entries(self, directory: str, *, is_system: bool) -> None:
        top = directory == "/"
        with os.scandir(directory) as entries:
            for entry in entries:
                if top and entry.name in _NEVER_SHOWN:
                    continue
                if entry.is_symlink():
                    self._link(entry.path)
                elif entry.is_dir():
                    self._show(entry.path, is_system=is_system or (top and entry.name in _SYSTEM))
                elif not top:
                    self._bind(entry.path)

    def _show(self, path: str, *, is_system: bool) -> None:
        if path in self._hidden or not os.access(path, os.R_OK | os.X_OK):
            self._make(path, _FRESH.get(path[1:], 0o755))
            return
        self._make(path, stat.S_IMODE(os.stat(path).st_mode))
        if is_system and _is_empty(path):
            # The layer's own directory is all that a merged one would be, and /mnt, /media and /srv mostly are empty.
            return
        lower = self._ground.etc if path == "/etc" else path
        if is_system and self._merge(path, lower):
            return
        if self._must_be_taken_apart(path, is_system=is_system):
            self._show_entries(path, is_system=is_system)
        else:
            self._bind(path)

    def _must_be_taken_apart(self, path: str, *, is_system: bool) -> bool:
        below = path + "/"
        if any(wanted.startswith(below) for wanted in self._wanted):
            return True
        return is_system and any(point.startswith(below) for point in self._ground.mount_points)

    def _link(self, path: str) -> None:
        if not os.path.lexists(self._root + path):
            os.symlink(os.readlink(path), self._root + path)

    def _bind(self, path: str) -> None:
        place = self._root + path
        if not os.path.lexists(place):
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        tree = syscalls.clone_tree(path)
        syscalls.make_read_only(tree)
        syscalls.attach_tree(tree, place)
        os.close(tree)

    def _merge(self, path: str, lower: str) -> bool:
        """False where the kernel refuses: a directory below which something else is mounted, or an odd file system."""
        if any(point.startswith(lower + "/") for point in self._ground.mount_points):
            return False
        layers = [lower]
        skeleton = self._ground.skeleton
        if skeleton and os.path.isdir(skeleton + path):
            layers.insert(0, skeleton + path)
        work = f"{self._work}/{len(self._merged)}"
        os.makedirs(work, exist_ok=True)
        try:
            overlay.mount(layers, self._layer + path, work, self._root + path)
        except OSError:
            return False
        self._merged.append(path)
        return True


def _is_empty(directory: str) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None
