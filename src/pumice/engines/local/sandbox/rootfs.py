"""The root of a container: an image or the host below, a writable layer above, then what is mounted into it.

The kernel refuses to lay one layer over the host's whole root for who may not uncover /proc and /dev. So there is one
for each directory of the system; others are bound read-only: who writes to a data directory that was not mounted shall
learn it at once, and not lose what was written.
"""

from __future__ import annotations

import os
import stat

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.kernelfs import KernelFileSystems
from pumice.engines.local.sandbox.places import Memory, Tree
from pumice.engines.local.sandbox.problems import IMAGE, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount

_SYSTEM = frozenset({"bin", "etc", "lib", "lib32", "lib64", "libx32", "mnt", "media", "opt", "sbin", "srv", "usr", "var"})
_FRESH = {"tmp": 0o1777, "run": 0o755, "proc": 0o555, "sys": 0o555, "dev": 0o755, "home": 0o755, "root": 0o700}
_NEVER_SHOWN = frozenset({"tmp", "run", "proc", "sys", "dev", "lost+found"})


class Ground:
    """What job-init prepares for all containers: a place to build at, and the layer of directories."""

    def __init__(self, place: str, skeleton: str | None, *, all_users: bool) -> None:
        self.place = place
        self.skeleton = skeleton
        self.all_users = all_users


def enter_root(spec: ContainerSpec, ground: Ground, files: list[str]) -> None:
    """Build the root and go there; nothing of the host's tree is reachable afterwards but what the spec mounts."""
    syscalls.mount("tmpfs", ground.place, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    os.umask(0)
    root = f"{ground.place}/root"
    os.mkdir(root)
    late = _trees(spec, ground, files)
    kernel = KernelFileSystems(spec.devices, all_users=ground.all_users)
    layer, work = _layer(spec, ground)
    if spec.root.image is None:
        _HostRoot(root, layer, work, ground.skeleton).build(spec.hidden)
    else:
        _overlay([spec.root.image], layer, work, root)
    os.chdir(root)
    syscalls.pivot_root_here()
    os.umask(0o022)
    # The kernel gives a new /proc or /sys only to who sees a whole one already, which is the host's.
    kernel.mount()
    syscalls.detach(".")
    os.chdir("/")
    # Those further up first: what is mounted below must not be covered.
    for tree in sorted(late, key=lambda tree: os.path.normpath(tree.target).count("/")):
        tree.attach()


def _trees(spec: ContainerSpec, ground: Ground, files: list[str]) -> list[Tree | Memory]:
    trees: list[Tree | Memory] = []
    for number, path in enumerate(_deeply_hidden(spec)):
        empty = f"{ground.place}/hidden{number}"
        os.mkdir(empty, 0o755)
        trees.append(Tree(empty, path))
    for mount in spec.mounts:
        if isinstance(mount, Mount):
            trees.append(Tree(mount.source, mount.target, read_only=mount.read_only))
        else:
            trees.append(Memory(mount))
    for source, file in zip(files, spec.files, strict=True):
        trees.append(Tree(source, file.path))
    return trees


def _deeply_hidden(spec: ContainerSpec) -> list[str]:
    """Directories at the top are simply not shown; the others are covered. An image has none of the host's."""
    if spec.root.image is not None:
        return []
    real = {os.path.realpath(path) for path in spec.hidden}
    return sorted(path for path in real if path.count("/") > 1 and os.path.isdir(path))


def _layer(spec: ContainerSpec, ground: Ground) -> tuple[str, str]:
    """Where the writable layer and the kernel's working space for it are: always on one file system."""
    upper = spec.root.upper
    layer, work = (f"{ground.place}/layer", f"{ground.place}/work") if upper is None else (upper, work_of(upper))
    os.makedirs(layer, 0o755, exist_ok=True)
    os.makedirs(work, 0o755, exist_ok=True)
    return layer, work


def work_of(upper: str) -> str:
    return upper.rstrip("/") + ".work"


class _HostRoot:
    """The layer is bound as the root, and over each of its directories lies that directory merged with the host's."""

    def __init__(self, root: str, layer: str, work: str, skeleton: str | None) -> None:
        self._root = root
        self._layer = layer
        self._work = work
        self._skeleton = skeleton

    def build(self, hidden: tuple[str, ...]) -> None:
        syscalls.attach_tree(syscalls.clone_tree(self._layer), self._root)
        for name, mode in _FRESH.items():
            self._make(name, mode)
        covered = {path.strip("/") for path in hidden} | {os.path.realpath(path).strip("/") for path in hidden}
        with os.scandir("/") as entries:
            for entry in entries:
                if entry.name not in _NEVER_SHOWN:
                    self._show(entry, hidden=entry.name in covered)

    def _make(self, name: str, mode: int) -> None:
        os.makedirs(f"{self._root}/{name}", exist_ok=True)
        os.chmod(f"{self._root}/{name}", mode)

    def _show(self, entry: os.DirEntry[str], *, hidden: bool) -> None:
        place = f"{self._root}/{entry.name}"
        if entry.is_symlink():
            if not os.path.lexists(place):
                os.symlink(os.readlink(entry.path), place)
        elif entry.is_dir():
            if hidden or not os.access(entry.path, os.R_OK | os.X_OK):
                self._make(entry.name, _FRESH.get(entry.name, 0o755))
                return
            self._make(entry.name, stat.S_IMODE(entry.stat().st_mode))
            if not (entry.name in _SYSTEM and self._merge(entry.name)):
                tree = syscalls.clone_tree(entry.path)
                syscalls.make_read_only(tree)
                syscalls.attach_tree(tree, place)
                os.close(tree)

    def _merge(self, name: str) -> bool:
        """False where the kernel refuses: a directory below which something else is mounted, or an odd file system."""
        lower = [f"/{name}"]
        if self._skeleton and os.path.isdir(f"{self._skeleton}/{name}"):
            lower.insert(0, f"{self._skeleton}/{name}")
        work = f"{self._work}/{name}"
        os.makedirs(work, exist_ok=True)
        try:
            _mount_overlay(lower, f"{self._layer}/{name}", work, f"{self._root}/{name}")
        except OSError:
            return False
        return True


def _overlay(lower: list[str], upper: str, work: str, place: str) -> None:
    if not os.path.isdir(lower[-1]):
        raise StartError(IMAGE, f"{lower[-1]}: no directory of an unpacked image")
    os.chmod(upper, stat.S_IMODE(os.stat(lower[0]).st_mode))
    try:
        _mount_overlay(lower, upper, work, place)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise StartError(IMAGE, f"{lower[-1]}: cannot be used as an image, the kernel says: {why}") from error


def _mount_overlay(lower: list[str], upper: str, work: str, place: str) -> None:
    layers = ":".join(map(_escaped, lower))
    options = f"lowerdir={layers},upperdir={_escaped(upper)},workdir={_escaped(work)},userxattr"
    syscalls.mount("overlay", place, "overlay", 0, options)


def _escaped(path: str) -> str:
    return "".join("\\" + character if character in "\\:," else character for character in path)
