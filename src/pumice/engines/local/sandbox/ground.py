"""What job-init prepares once for all containers of the job."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from pumice.engines.local.sandbox.skeleton import make_skeleton


@dataclass(frozen=True, slots=True)
class Ground:
    """`place` is where each container builds its root, in a mount namespace of its own."""

    place: str
    files: str
    skeleton: str | None
    etc: str
    mount_points: tuple[str, ...]
    all_users: bool


def prepare(place: str, *, all_users: bool) -> Ground:
    """In an empty file system in memory."""
    for name in ("box", "files", "skeleton"):
        os.mkdir(f"{place}/{name}")
    if not all_users:
        make_skeleton(f"{place}/skeleton")
    with open("/proc/self/mountinfo") as file:
        mounted = [_unescaped(line.split()[4]) for line in file]
    # What job-init has mounted itself is in nobody's way: only others' mounts may not be uncovered.
    points = tuple(point for point in mounted if point != place)
    return Ground(
        place=f"{place}/box",
        files=f"{place}/files",
        skeleton=None if all_users else f"{place}/skeleton",
        etc=_etc(f"{place}/etc", points),
        mount_points=points,
        all_users=all_users,
    )


def _unescaped(path: str) -> str:
    return path.encode("latin-1").decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")


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
