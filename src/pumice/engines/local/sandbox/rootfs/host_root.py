"""The host's file system as a container's root, below a writable layer.

For a user who may not uncover /proc and /dev the kernel refuses one overlay over the whole root, so each system
directory gets its own overlay. Other directories are bound read-only: a program that writes to a data directory that
was not mounted fails at once instead of losing its output. A directory that contains another mount, or in which a
missing mount point is needed, is split: its entries are shown one by one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem

_SYSTEM = frozenset(
    {"bin", "etc", "lib", "lib32", "lib64", "libx32", "mnt", "media", "opt", "sbin", "srv", "usr", "var"}
)
_PRIVATE = {"tmp": 0o1777, "run": 0o755, "proc": 0o555, "sys": 0o555, "dev": 0o755, "home": 0o755, "root": 0o700}
_NEVER_SHOWN = frozenset({"tmp", "run", "proc", "sys", "dev", "lost+found"})


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
        syscalls.attach_tree(syscalls.clone_tree(self._layer), self._root)
        for name, mode in _PRIVATE.items():
            self._make_directory(f"/{name}", mode)
        self._hidden = {os.path.normpath(path) for path in hidden} | {os.path.realpath(path) for path in hidden}
        self._wanted = [os.path.realpath(target) for target in targets if not os.path.exists(target)]
        self._show_entries("/", is_system=False)
        return self._overlays

    def _make_directory(self, path: str, mode: int) -> None:
        """Its parents exist, and the umask is 0."""
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
                    if not os.path.lexists(self._root + entry.path):
                        os.symlink(os.readlink(entry.path), self._root + entry.path)
                elif entry.is_dir():
                    self._show(entry.path, is_system=is_system or (top and entry.name in _SYSTEM))
                elif not top:
                    self._bind(entry.path)

    def _show(self, path: str, *, is_system: bool) -> None:
        if path in self._hidden or not os.access(path, os.R_OK | os.X_OK):
            self._make_directory(path, _PRIVATE.get(path[1:], 0o755))
            return
        self._make_directory(path, stat.S_IMODE(os.stat(path).st_mode))
        if is_system and not os.listdir(path):
            # /mnt, /media and /srv are mostly empty: the layer's own directory serves as well as an overlay.
            return
        lower = self._job.etc if path == "/etc" else path
        if is_system and self._mount_overlay(path, lower):
            return
        inside = self._wanted + list(self._job.mount_points if is_system else ())
        if any(each.startswith(path + "/") for each in inside):
            self._show_entries(path, is_system=is_system)
        else:
            self._bind(path)

    def _bind(self, path: str) -> None:
        target = self._root + path
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        tree = syscalls.clone_tree(path)
        syscalls.make_read_only(tree)
        syscalls.attach_tree(tree, target)
        os.close(tree)

    def _mount_overlay(self, path: str, lower: str) -> bool:
        """False where the kernel refuses: another mount is below it, or its file system does not support overlays."""
        if any(point.startswith(lower + "/") for point in self._job.mount_points):
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
