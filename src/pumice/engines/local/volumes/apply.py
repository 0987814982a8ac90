"""Makes the directories and files of a job's volumes on this machine.

The scratch directory is closed to other users, whatever modes the files in it have: those are for the pods, which see
a volume as a mount and so never pass through the scratch directory. Files are replaced whole, so that a pod that reads
while the job is scaled sees the old or the new one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pumice.engines.local.state.remove_tree import remove_tree
from pumice.engines.local.volumes.data_sources import Entry
from pumice.engines.local.volumes.plan import pod_directory
from pumice.engines.local.volumes.steps import HostPath, MakeDirectory, Step, SubPath, WriteFiles
from pumice.model.problem import Problem

_CLOSED: Final = 0o700
_OPEN: Final = 0o755
# What the group of a volume may do, and what that takes for directories: new files in them are the group's, too.
_SHARED: Final = 0o660
_READ: Final = 0o440
_ENTERED: Final = 0o2110
_IS: Final[Mapping[str, Callable[[int], bool]]] = {
    "Directory": stat.S_ISDIR,
    "DirectoryOrCreate": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "FileOrCreate": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}
_MADE: Final = ("", "DirectoryOrCreate", "FileOrCreate")


class VolumeFiles:
    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        # What was written where, so that a thousand pods with one ConfigMap cost one directory.
        self._written: dict[Path, WriteFiles] = {}
        self._given: set[tuple[Path, int]] = set()  # to which group

    def prepare(self, steps: Iterable[Step]) -> list[Problem]:
        """Take the steps; what could not be done is fatal for the container that asked for it."""
        problems = []
        self._scratch.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
        self._scratch.chmod(_CLOSED)
        for step in steps:
            try:
                problem = self._take(step)
            except OSError as error:
                what = f"volume {step.volume}: " if isinstance(step, HostPath | SubPath) else ""
                problem = Problem(f"{what}{error.filename}: {(error.strerror or str(error)).lower()}")
            if problem is not None:
                problems.append(problem)
        return problems

    def remove_pod(self, uid: str) -> None:
        """Remove the volumes that only this pod had."""
        place = pod_directory(self._scratch, uid)
        for path in [path for path in self._written if path.is_relative_to(place)]:
            del self._written[path]
        remove_tree(place)

    def _take(self, step: Step) -> Problem | None:
        match step:
            case MakeDirectory():
                _make_directory(step.path, step.mode)
                if step.group is not None and (step.path, step.group) not in self._given:
                    _give(step.path, step.group, _SHARED)
                    self._given.add((step.path, step.group))
            case WriteFiles() if self._written.get(step.path) != step:
                _write(step.path, dict(step.files))
                if step.group is not None:
                    _give(step.path, step.group, _READ)
                self._written[step.path] = step
            case HostPath():
                return _host_path(step)
            case SubPath():
                return _sub_path(step)
        return None


def _make_directory(path: Path, mode: int) -> None:
    path.parent.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
    # Only a fresh directory gets its mode: what is in an old one, and who may use it, is the user's affair by now.
    with suppress(FileExistsError):
        path.mkdir()
        path.chmod(mode)


def _give(place: Path, group: int, mode: int) -> None:
    """All of a volume to the pod's fsGroup, as a kubelet does it. Without root there is one group, which has it all.

    A pod may be at work in it. What it puts a link in the place of is never followed: everything is changed by what
    was opened, not by its name.
    """
    for _, _, names, directory in os.fwalk(place):
        _give_opened(directory, group, mode | _ENTERED)
        for name in names:
            # A pipe without a reader would be waited for; a link, or what is gone by now, is no concern of ours.
            with suppress(OSError):
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
                try:
                    _give_opened(opened, group, mode)
                finally:
                    os.close(opened)


def _give_opened(opened: int, group: int, more: int) -> None:
    with suppress(PermissionError):
        os.fchown(opened, -1, group)
        os.fchmod(opened, stat.S_IMODE(os.fstat(opened).st_mode) | more)


def _write(place: Path, files: Mapping[str, Entry]) -> None:
    _make_directory(place, _OPEN)
    for name, entry in files.items():
        target = place / name
        for parent in reversed(target.relative_to(place).parents[:-1]):
            _make_directory(place / parent, _OPEN)
        fresh = target.with_name(f"..{target.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(entry.data)
        fresh.chmod(entry.mode)
        fresh.replace(target)
    for path in sorted(place.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif str(path.relative_to(place)) not in files:
            path.unlink()


def _host_path(step: HostPath) -> Problem | None:
    is_that = _IS.get(step.type)
    if step.type in _MADE and not step.path.exists():
        if step.type == "FileOrCreate":
            step.path.touch(0o644)
        else:
            step.path.mkdir(mode=_OPEN, parents=True)
    try:
        found = step.path.stat().st_mode
    except FileNotFoundError:
        return Problem(f"volume {step.volume}: hostPath {step.path}: is not there", "make it, or mend the path")
    if is_that is not None and not is_that(found):
        return Problem(f"volume {step.volume}: hostPath {step.path}: is not of type {step.type}")
    return None


def _sub_path(step: SubPath) -> Problem | None:
    """Walk down without following links: one that a pod has laid could lead anywhere on the host."""
    place = step.base
    *parents, last = step.within.split("/")
    for part in (*parents, last):
        place = place / part
        try:
            found = place.lstat().st_mode
        except FileNotFoundError:
            place.mkdir(_OPEN)
            continue
        if stat.S_ISLNK(found):
            inner = place.relative_to(step.base)
            message = f"volume {step.volume}: subPath {step.within}: {inner} is a symbolic link, which is not followed"
            return Problem(message, "name the directory that it points to")
    return None
