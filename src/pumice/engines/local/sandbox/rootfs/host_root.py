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
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES, File

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
    """What a container gets of the host's file system, outer directories first. Plain values, which can be sent."""

    directories: list[tuple[str, int]]  # without content of the host, with their modes
    links: list[tuple[str, str]]
    overlays: list[tuple[str, int, list[str]]]  # with their modes and lower layers
    bound: list[str]  # read-only
    layered: list[str]  # the files that a lower layer has instead of the host's


class Wanted(NamedTuple):
    """What a container wants of the host's file system. Those that want the same see the same.

    `files` replace those of the host: a layer has them, so that a container needs no mount for each.
    """

    hidden: Sequence[str]  # directories
    targets: Sequence[str]  # mount points
    files: Sequence[File]


class Look:
    """Looks at the host, and makes the layer in `directory`.

    `trial`, which may be the same, is on the file system that the writable layers of the containers are on.
    """

    def __init__(self, host: Host, wanted: Wanted, directory: str, trial: str) -> None:
        paths = {os.path.normpath(path) for path in wanted.hidden}
        self._host = host
        self._hidden = paths | {os.path.realpath(path) for path in paths}
        self._missing = [os.path.realpath(target) for target in wanted.targets if not os.path.exists(target)]
        self._files = wanted.files
        self._directory = directory
        self._trial = trial
        self.view = HostView([], [], [], [], [])
        with os.scandir(f"{host.root}/") as entries:
            self._add([entry for entry in entries if entry.name in SYSTEM_DIRECTORIES])

    def _add(self, entries: Iterable[os.DirEntry[str]]) -> None:
        for entry in entries:
            path = entry.path.removeprefix(self._host.root)
            if entry.is_symlink():
                self.view.links.append((path, os.readlink(entry.path)))
            elif entry.is_file():
                self.view.bound.append(path)
            elif entry.is_dir():
                if path in self._hidden or not os.access(entry.path, os.R_OK | os.X_OK):
                    self.view.directories.append((path, 0o755))
                else:
                    self._add_directory(path)

    def _add_directory(self, path: str) -> None:
        source = self._host.root + path
        mode = stat.S_IMODE(os.stat(source).st_mode)
        lower = self._host.etc if path == "/etc" else source
        with os.scandir(source) as content:
            entries = list(content)
        has_mounts = any(
            point.startswith(f"{lower.removeprefix(self._host.root)}/") for point in self._host.mount_points
        )
        layers = [lower]
        if self._host.skeleton and os.path.isdir(self._host.skeleton + path):
            layers.insert(0, self._host.skeleton + path)
        if not entries:
            # The layer's own directory serves as well as an overlay.
            self.view.directories.append((path, mode))
        elif not has_mounts and self._is_accepted(layers):
            layered = [file for file in self._files if file.path.startswith(f"{path}/") and self._is_plain(path, file)]
            if layered:
                layers.insert(0, self._make_layer(path, layered))
            self.view.overlays.append((path, mode, layers))
        elif has_mounts or any(each.startswith(path + "/") for each in self._missing):
            self.view.directories.append((path, mode))
            self._add(entries)
        else:
            self.view.bound.append(path)

    def _is_accepted(self, layers: Sequence[str]) -> bool:
        """Return whether the kernel accepts such an overlay, whose file system may not support it."""
        upper, work, root = f"{self._trial}/upper", f"{self._trial}/work", f"{self._directory}/root"
        for each in (upper, work, root):
            os.makedirs(each, exist_ok=True)
        try:
            syscalls.mount_overlay(layers, upper, work, root)
        except OSError:
            return False
        syscalls.detach(root)
        return True

    def _is_plain(self, top: str, file: File) -> bool:
        """Return whether the host shows the directory of the file below `top`, at its own path, and the file if any."""
        parents = [path := os.path.dirname(file.path)]
        while path != top:
            parents.append(path := os.path.dirname(path))
        if any(path in self._hidden or os.path.islink(path) or not os.path.isdir(path) for path in parents):
            return False
        return not os.path.islink(file.path) and not os.path.isdir(file.path)

    def _make_layer(self, top: str, files: Sequence[File]) -> str:
        """Return the directory of a lower layer that has these files."""
        layer = f"{self._directory}/layer"
        for file in files:
            parent = ""
            for name in os.path.dirname(file.path)[1:].split("/"):
                parent += f"/{name}"
                if not os.path.isdir(layer + parent):
                    os.makedirs(layer + parent)
                    # Of all layers that have it, the topmost decides.
                    os.chmod(layer + parent, stat.S_IMODE(os.stat(self._host.root + parent).st_mode))
            with open(layer + file.path, "wb") as writer:
                writer.write(file.data)
            os.chmod(layer + file.path, file.mode)
            self.view.layered.append(file.path)
        return layer + top


def build(view: HostView, host: Host, root: str, layer: str, work: str) -> list[str]:
    """Bind the writable layer as the root, and mount an overlay of host and layer over each of the host's directories.

    The umask is 0. Returns the directories with an overlay, each of which is a mount point.
    """
    syscalls.bind_restricted(layer, root, syscalls.NO_SET_ID | syscalls.NO_DEVICES)
    for name, mode in (_PRIVATE | _EMPTY).items():
        _make_directory(f"{root}/{name}", mode)
    for path, mode in view.directories:
        _make_directory(root + path, mode)
    for path, target in view.links:
        with suppress(FileExistsError):
            os.symlink(target, root + path)
    for number, (path, mode, layers) in enumerate(view.overlays):
        _make_directory(root + path, mode)
        with suppress(FileExistsError):
            os.mkdir(f"{work}/{number}")
        syscalls.mount_overlay(layers, layer + path, f"{work}/{number}", root + path)
    for path in view.bound:
        source, target = host.root + path, root + path
        if os.path.isdir(source):
            _make_directory(target, 0o755)
        elif not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        syscalls.bind_restricted(source, target, _RESTRICTED)
    return [path for path, _, _ in view.overlays]


def _make_directory(path: str, mode: int) -> None:
    """Its parents exist."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        os.chmod(path, mode)
