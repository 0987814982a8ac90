"""What job-init prepares once for all containers of the job."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field

from pumice.engines.local.sandbox.rootfs import mount_table
from pumice.engines.local.sandbox.rootfs.writable_skeleton import make_skeleton


@dataclass(frozen=True, slots=True)
class Ground:
    """`place` is where each container builds its root, in a mount namespace of its own."""

    place: str
    files: str
    skeleton: str | None  # of the host
    skeletons: str  # where those of images are made
    etc: str
    mount_points: tuple[str, ...]
    all_users: bool
    _images: dict[str, str | None] = field(default_factory=dict)  # the skeletons that they need

    def skeleton_of(self, image: str) -> str | None:
        """For an image whose directories belong to somebody else; made once, before a container is forked."""
        if image not in self._images:
            place = f"{self.skeletons}/{len(self._images)}"
            needed = not self.all_users and _belongs_to_others(image)
            self._images[image] = place if needed else None
            if needed:
                os.mkdir(place)
                make_skeleton(place, image)
        return self._images[image]


def prepare(place: str, *, all_users: bool) -> Ground:
    """In an empty file system in memory."""
    for name in ("box", "files", "skeleton", "skeletons"):
        os.mkdir(f"{place}/{name}")
    if not all_users:
        make_skeleton(f"{place}/skeleton")
    mounted = map(mount_table.mount_point, mount_table.read_lines("/proc/self/mountinfo"))
    # What job-init has mounted itself is in nobody's way: only others' mounts may not be uncovered.
    points = tuple(point for point in mounted if point != place)
    return Ground(
        place=f"{place}/box",
        files=f"{place}/files",
        skeleton=None if all_users else f"{place}/skeleton",
        skeletons=f"{place}/skeletons",
        etc=_etc(f"{place}/etc", points),
        mount_points=points,
        all_users=all_users,
    )


def _belongs_to_others(image: str) -> bool:
    """What another user has unpacked; one directory at the top is as good as all."""
    if not os.path.isdir(image) or not os.access(image, os.R_OK | os.X_OK):
        return False
    with os.scandir(image) as entries:
        tops = [entry.stat().st_uid for entry in entries if entry.is_dir(follow_symlinks=False)]
    return any(owner != os.geteuid() for owner in (os.stat(image).st_uid, *tops))


def _etc(copy: str, mount_points: tuple[str, ...]) -> str:
    """/etc, or a copy where files in it are mounts, as in most containers: no layer can be laid over those."""
    if not any(point.startswith("/etc/") for point in mount_points):
        return "/etc"
    try:
        shutil.copytree("/etc", copy, symlinks=True, ignore_dangling_symlinks=True, ignore=_unreadable)
    except shutil.Error:
        # Some could not be copied; the others were.
        return copy
    return copy


def _unreadable(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if not _readable(os.path.join(directory, name))]


def _readable(path: str) -> bool:
    if os.path.islink(path):
        return True
    return (os.path.isfile(path) or os.path.isdir(path)) and os.access(path, os.R_OK)
