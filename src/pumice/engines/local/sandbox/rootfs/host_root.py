"""The host's file system as a container's root, below a writable layer.

Only system directories are shown, not data. For a user who may not uncover /proc and /dev the kernel refuses one
overlay over the whole root, so each of them gets its own overlay. A directory that contains another mount, or in which
a missing mount point is needed, is split: its entries are shown one by one. An overlay also keeps a container from the
sockets below it; where the kernel refuses one, the directory is bound read-only and sockets are left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES

_PRIVATE = {"tmp": 0o1777, "run": 0o755, "proc": 0o555, "sys": 0o555, "dev": 0o755, "home": 0o755, "root": 0o700}
# Empty ones, which many programs and people expect.
_EMPTY = {"media": 0o755, "mnt": 0o755, "srv": 0o755}


class HostRoot:
    """Binds the writable layer as the root and mounts an overlay of host and layer over each of its directories."""

    def __init__(self, root: str, layer: str, work: str, job: JobFilesystem) -> None:
        self._root = root
        self._layer = layer
        self._work = work
        self._job = job
        self._hidden: set[str] = set()
        self._wanted: list[str] = []
        self._overlays: list[str] = []

    def build(self, hidden: Iterable[str], targets: Iterable[str]) -> list[str]:
        """Returns the directories with an overlay, each of which is a mount point."""
        layer = syscalls.clone_tree(self._layer)
        syscalls.restrict_mount(layer, syscalls.NO_SET_ID | syscalls.NO_DEVICES)
        syscalls.attach_tree(layer, self._root)
        os.close(layer)
        for name, mode in (_PRIVATE | _EMPTY).items():
            self._make_directory(f"/{name}", mode)
        self._hidden = {os.path.normpath(path) for path in hidden} | {os.path.realpath(path) for path in hidden}
        self._wanted = [os.path.realpath(target) for target in targets if not os.path.exists(target)]
        with os.scandir(f"{self._job.host}/") as entries:
            self._show_entries([entry for entry in entries if entry.name in SYSTEM_DIRECTORIES])
        return self._overlays

    def _make_directory(self, path: str, mode: int) -> None:
        """Its parents exist, and the umask is 0."""
        try:
            os.mkdir(self._root + path, mode)
        except FileExistsError:
            os.chmod(self._root + path, mode)

    def _show_entries(self, entries: Iterable[os.DirEntry[str]]) -> None:
        for entry in entries:
            path = entry.path.removeprefix(self._job.host)
            if entry.is_symlink():
                if not os.path.lexists(self._root + path):
                    os.symlink(os.readlink(entry.path), self._root + path)
            elif entry.is_dir():
                self._show(path)
            elif entry.is_file():
                self._bind(path)

    def _show(self, path: str) -> None:
        source = self._job.host + path
        if path in self._hidden or not os.access(source, os.R_OK | os.X_OK):
            self._make_directory(path, 0o755)
            return
        self._make_directory(path, stat.S_IMODE(os.stat(source).st_mode))
        with os.scandir(source) as entries:
            if next(entries, None) is None:
                # The layer's own directory serves as well as an overlay.
                return
        lower = self._job.etc if path == "/etc" else source
        if self._mount_overlay(path, lower):
            return
        if any(each.startswith(path + "/") for each in (*self._wanted, *self._job.mount_points)):
            with os.scandir(source) as entries:
                self._show_entries(entries)
        else:
            self._bind(path)

    def _bind(self, path: str) -> None:
        target = self._root + path
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        tree = syscalls.clone_tree(self._job.host + path)
        syscalls.restrict_mount(tree, syscalls.READ_ONLY | syscalls.NO_SET_ID | syscalls.NO_DEVICES)
        syscalls.attach_tree(tree, target)
        os.close(tree)

    def _mount_overlay(self, path: str, lower: str) -> bool:
        """False where the kernel refuses: another mount is below it, or its file system does not support overlays."""
        below = f"{lower.removeprefix(self._job.host)}/"
        if any(point.startswith(below) for point in self._job.mount_points):
            return False
        layers = [lower]
        skeleton = self._job.skeleton
        if skeleton and os.path.isdir(skeleton + path):
            layers.insert(0, skeleton + path)
        work = f"{self._work}/{len(self._overlays)}"
        os.makedirs(work, exist_ok=True)
        try:
            syscalls.mount_overlay(layers, self._layer + path, work, self._root + path)
        except OSError:
            return False
        self._overlays.append(path)
        return True
