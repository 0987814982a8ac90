"""The directories that job-init prepares once for all containers of the job.

An ordinary user sees most directories of the host, or of an image, as another user's. An overlay takes owner and mode
of a directory from its topmost layer. One more lower layer that contains only directories, all owned by the caller,
therefore lets containers write below /etc and /var at no cost per container. Files can be replaced, not edited.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections import deque
from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from pumice.engines.local.sandbox import kernel_files, syscalls
from pumice.engines.local.sandbox.rootfs import kernel_filesystems
from pumice.engines.local.sandbox.rootfs.host_root import Host, HostView
from pumice.engines.local.sandbox.rootfs.kernel_filesystems import KernelFileSystems
from pumice.engines.local.sandbox.rootfs.mount_targets import Source, Tree
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES

# Directory -> levels below it that become writable. All of /usr would take too long, and few programs write there.
_WRITABLE_ON_HOST = {"etc": 99, "var": 99, "opt": 99, "usr": 2, "usr/local": 99}
_WRITABLE_IN_IMAGE = {".": 99}
_MAX_DIRECTORIES = 4000


class OpenTrees(Protocol):
    def __call__(self, sources: Sequence[Source], *, below: bool = True) -> list[Tree]: ...


class JobFilesystem(NamedTuple):
    """Each container builds its root at `build`, in a mount namespace of its own."""

    build: str
    files: str
    kernel: KernelFileSystems
    skeletons: str  # the parent of the writable skeletons of images
    host: Host
    all_users: bool
    images: dict[str, list[str]]  # the layers of those that were used
    views: dict[Hashable, HostView]  # by what is the same for containers that have the same view
    attached: dict[str, str]  # directories of the host, and where they are
    trees: OpenTrees | None = None  # opens trees of the host, if the ids of the job are mapped

    def lower_of(self, image: str) -> list[str]:
        """The layers of an image, the topmost first; made once, before a container forks.

        The image of another user has a writable skeleton on top.
        """
        if image not in self.images:
            layers = [self._attach(image, "/")]
            if not self.all_users and _belongs_to_others(image):
                skeleton = f"{self.skeletons}/{len(self.images)}"
                os.mkdir(skeleton)
                _make_skeleton(skeleton, image, _WRITABLE_IN_IMAGE)
                layers.insert(0, skeleton)
            self.images[image] = layers
        return self.images[image]

    def upper_of(self, upper: str | None) -> str | None:
        """The path of a writable layer on disk; also to be called before a container forks."""
        if upper is None:
            return None
        parent, name = os.path.split(upper)
        return upper if self.trees is None else f"{self._attach(parent)}/{name}"

    def _attach(self, path: str, volume: str = "") -> str:
        """Return where a directory of the host is with the ids of the job; below `volume` no link is followed."""
        if path not in self.attached:
            [tree] = (self.trees or _open_trees)([(path, volume)])
            point = f"{self.skeletons}/attached-{len(self.attached)}"
            # Without a tree, the container finds nothing there, and says so.
            if not isinstance(tree, OSError):
                if stat.S_ISDIR(os.fstat(tree).st_mode):
                    os.mkdir(point)
                    syscalls.attach_tree(tree, point)
                os.close(tree)
            self.attached[path] = point
        return self.attached[path]


def _open_trees(sources: Sequence[Source], *, below: bool = True) -> list[Tree]:
    found: list[Tree] = []
    for source in sources:
        try:
            found.append(syscalls.clone_tree(*source, below=below))
        except OSError as error:
            found.append(error)
    return found


def prepare(directory: str, *, all_users: bool, trees: OpenTrees | None = None) -> JobFilesystem:
    """Prepare an empty tmpfs."""
    for name in ("build", "files", "skeleton", "skeletons", "host", "kernel"):
        os.mkdir(f"{directory}/{name}")
    if not all_users:
        _make_skeleton(f"{directory}/skeleton", "", _WRITABLE_ON_HOST)
    mounted = map(kernel_files.mount_point, kernel_files.read_lines("/proc/self/mountinfo"))
    # Only mounts made by others must stay covered.
    mount_points = tuple(path for path in mounted if path != directory)
    host = "" if trees is None else f"{directory}/host"
    if trees is not None:
        _show_host(host, mount_points, trees)
    return JobFilesystem(
        build=f"{directory}/build",
        files=f"{directory}/files",
        kernel=kernel_filesystems.prepare(f"{directory}/kernel", all_users=all_users),
        skeletons=f"{directory}/skeletons",
        host=Host(
            host,
            _etc(f"{directory}/etc", host, mount_points),
            None if all_users else f"{directory}/skeleton",
            mount_points,
        ),
        all_users=all_users,
        images={},
        views={},
        attached={},
        trees=trees,
    )


def _show_host(host: str, mount_points: tuple[str, ...], trees: OpenTrees) -> None:
    """Attach the host's root, and each mount in a system directory, with the ids of the job.

    One by one, because the tree as a whole contains file systems that do not support it, such as /proc.
    """
    points = ["/", *sorted(point for point in mount_points if point.split("/")[1] in SYSTEM_DIRECTORIES)]
    for point, tree in zip(points, trees([(point, "") for point in points], below=False), strict=True):
        if not isinstance(tree, OSError):
            with contextlib.suppress(OSError):
                # A mount point that another mount covers.
                syscalls.attach_tree(tree, host + point)
            os.close(tree)


def _belongs_to_others(image: str) -> bool:
    """Whether another user unpacked the image; the directories at its top are enough to tell."""
    if not os.path.isdir(image) or not os.access(image, os.R_OK | os.X_OK):
        return False
    with os.scandir(image) as entries:
        owners = [entry.stat().st_uid for entry in entries if entry.is_dir(follow_symlinks=False)]
    return any(owner != os.geteuid() for owner in (os.stat(image).st_uid, *owners))


def _make_skeleton(destination: str, root: str, writable: dict[str, int]) -> None:
    """Copy directories without their files, breadth first: the limit cuts off the deepest ones."""
    for top, depth in writable.items():
        waiting = deque([(top, 0)])
        made = 0
        while waiting and made < _MAX_DIRECTORIES:
            path, level = waiting.popleft()
            below = _copy_directory(root, path, destination)
            made += 1
            if level < depth:
                waiting.extend((child, level + 1) for child in below)


def _copy_directory(root: str, path: str, destination: str) -> list[str]:
    """Copy one directory and return the paths of its subdirectories; an unreadable one has nothing to merge."""
    try:
        with os.scandir(f"{root}/{path}") as entries:
            below = [f"{path}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
        mode = os.stat(f"{root}/{path}").st_mode & 0o1777
    except OSError:
        return []
    copy = f"{destination}/{path}"
    os.makedirs(copy, exist_ok=True)
    os.chmod(copy, mode | 0o700)
    return below


def _etc(copy: str, host: str, mount_points: tuple[str, ...]) -> str:
    """/etc, or a copy of it where files in /etc are mounts, as in most containers: an overlay cannot cover mounts."""
    if not any(path.startswith("/etc/") for path in mount_points):
        return f"{host}/etc"
    # The error lists files that could not be copied; the others were.
    with contextlib.suppress(shutil.Error):
        shutil.copytree(f"{host}/etc", copy, symlinks=True, ignore_dangling_symlinks=True, ignore=_unreadable)
    return copy


def _unreadable(directory: str, names: list[str]) -> list[str]:
    def readable(path: str) -> bool:
        regular = os.path.isfile(path) or os.path.isdir(path)
        return os.path.islink(path) or (regular and os.access(path, os.R_OK))

    return [name for name in names if not readable(os.path.join(directory, name))]
