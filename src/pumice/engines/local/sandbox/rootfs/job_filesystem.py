"""The directories that job-init prepares once for all containers of the job.

An ordinary user sees most directories of the host, or of an image, as another user's. An overlay takes owner and mode
of a directory from its topmost layer. One more lower layer that contains only directories, all owned by the caller,
therefore lets containers write below /etc and /var at no cost per container. Files can be replaced, not edited.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from dataclasses import dataclass, field

from pumice.engines.local.sandbox import kernel_files

# Directory -> levels below it that become writable. All of /usr would take too long, and few programs write there.
_WRITABLE_ON_HOST = {"etc": 99, "var": 99, "opt": 99, "usr": 2, "usr/local": 99}
_WRITABLE_IN_IMAGE = {".": 99}
_MAX_DIRECTORIES = 4000


@dataclass(frozen=True, slots=True)
class JobFilesystem:
    """Each container builds its root at `build`, in a mount namespace of its own."""

    build: str
    files: str
    skeleton: str | None  # the host's writable skeleton
    skeletons: str  # the parent of those of images
    etc: str
    mount_points: tuple[str, ...]
    all_users: bool
    _images: dict[str, str | None] = field(default_factory=dict)

    def skeleton_of(self, image: str) -> str | None:
        """The writable skeleton of an image that belongs to another user; made once, before a container forks."""
        if image not in self._images:
            needed = not self.all_users and _belongs_to_others(image)
            self._images[image] = skeleton = f"{self.skeletons}/{len(self._images)}" if needed else None
            if skeleton is not None:
                os.mkdir(skeleton)
                _make_skeleton(skeleton, image, _WRITABLE_IN_IMAGE)
        return self._images[image]


def prepare(directory: str, *, all_users: bool) -> JobFilesystem:
    """Prepare an empty tmpfs."""
    for name in ("build", "files", "skeleton", "skeletons"):
        os.mkdir(f"{directory}/{name}")
    if not all_users:
        _make_skeleton(f"{directory}/skeleton", "", _WRITABLE_ON_HOST)
    mounted = map(kernel_files.mount_point, kernel_files.read_lines("/proc/self/mountinfo"))
    # Only mounts made by others must stay covered.
    mount_points = tuple(path for path in mounted if path != directory)
    return JobFilesystem(
        build=f"{directory}/build",
        files=f"{directory}/files",
        skeleton=None if all_users else f"{directory}/skeleton",
        skeletons=f"{directory}/skeletons",
        etc=_etc(f"{directory}/etc", mount_points),
        mount_points=mount_points,
        all_users=all_users,
    )


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


def _etc(copy: str, mount_points: tuple[str, ...]) -> str:
    """/etc, or a copy of it where files in /etc are mounts, as in most containers: an overlay cannot cover mounts."""
    if not any(path.startswith("/etc/") for path in mount_points):
        return "/etc"
    # The error lists files that could not be copied; the others were.
    with contextlib.suppress(shutil.Error):
        shutil.copytree("/etc", copy, symlinks=True, ignore_dangling_symlinks=True, ignore=_unreadable)
    return copy


def _unreadable(directory: str, names: list[str]) -> list[str]:
    def readable(path: str) -> bool:
        regular = os.path.isfile(path) or os.path.isdir(path)
        return os.path.islink(path) or (regular and os.access(path, os.R_OK))

    return [name for name in names if not readable(os.path.join(directory, name))]
