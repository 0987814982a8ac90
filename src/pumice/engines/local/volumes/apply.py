"""Makes the directories and files of a job's volumes on this machine.

The scratch directory is closed to other users, whatever modes the files in it have: those are for the pods, which see a
volume as a mount and never pass through the scratch directory. Files are replaced by renaming, so that a pod that reads
while the job is scaled sees the old file or the new one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pumice.engines.local.sandbox.syscalls import open_beneath
from pumice.engines.local.volumes.volume_plan import (
    Entry,
    HostPath,
    MakeDirectory,
    Step,
    SubPath,
    WriteFiles,
    pod_directory,
)
from pumice.model.problem import Problem
from pumice.store.files.remove_tree import remove_tree

_CLOSED: Final = 0o700
_OPEN: Final = 0o755
# Permissions of a volume's group. Directories also get setgid, so that new files belong to the group.
_GROUP_WRITES: Final = 0o660
_GROUP_READS: Final = 0o440
_GROUP_ENTERS: Final = 0o2110
_IS_TYPE: Final[Mapping[str, Callable[[int], bool]]] = {
    "Directory": stat.S_ISDIR,
    "DirectoryOrCreate": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "FileOrCreate": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}
_CREATED: Final = ("", "DirectoryOrCreate", "FileOrCreate")


class VolumeFiles:
    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        # Thousands of pods with one ConfigMap share one directory, written once.
        self._written: dict[Path, WriteFiles] = {}
        self._groups: set[tuple[Path, int]] = set()  # directories that were given to a group

    def prepare(self, steps: Iterable[Step]) -> list[Problem]:
        """Execute the steps; return what keeps the container from starting."""
        problems = []
        self._scratch.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
        self._scratch.chmod(_CLOSED)
        for step in steps:
            try:
                problem = self._execute(step)
            except OSError as error:
                what = f"volume {step.volume}: " if isinstance(step, HostPath | SubPath) else ""
                problem = Problem(f"{what}{error.filename}: {(error.strerror or str(error)).lower()}")
            if problem is not None:
                problems.append(problem)
        return problems

    def remove_pod(self, uid: str) -> None:
        """Remove the pod's own volumes."""
        directory = pod_directory(self._scratch, uid)
        for path in [path for path in self._written if path.is_relative_to(directory)]:
            del self._written[path]
        remove_tree(directory)

    def _execute(self, step: Step) -> Problem | None:
        match step:
            case MakeDirectory():
                _make_directory(step.path, step.mode)
                if step.group is not None and (step.path, step.group) not in self._groups:
                    _set_group(step.path, step.group, _GROUP_WRITES)
                    self._groups.add((step.path, step.group))
            case WriteFiles() if self._written.get(step.path) != step:
                _write(step.path, dict(step.files))
                if step.group is not None:
                    _set_group(step.path, step.group, _GROUP_READS)
                self._written[step.path] = step
            case HostPath():
                return _check_host_path(step)
            case SubPath():
                directory, link = _walk_down(step.base, step.within.split("/"))
                os.close(directory)
                if not link:
                    return None
                text = f"volume {step.volume}: subPath {step.within}: {link} is a symbolic link, which is not followed"
                return Problem(text, "use the directory that it points to")
        return None


def _make_directory(path: Path, mode: int) -> None:
    path.parent.mkdir(mode=_CLOSED, parents=True, exist_ok=True)
    # An existing directory keeps its mode: the user may have changed it.
    with suppress(FileExistsError):
        path.mkdir()
        path.chmod(mode)


def _set_group(top: Path, group: int, mode: int) -> None:
    """Give a volume to the pod's fsGroup, as a kubelet does. Without root there is one group, which has it all.

    A pod may be changing the volume meanwhile, so files are changed by descriptor: links are never followed.
    """
    for _, _, names, directory in os.fwalk(top):
        _add_group(directory, group, mode | _GROUP_ENTERS)
        for name in names:
            # O_NONBLOCK does not wait for the writer of a pipe; links and files that are gone by now are skipped.
            with suppress(OSError):
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
                try:
                    _add_group(opened, group, mode)
                finally:
                    os.close(opened)


def _add_group(opened: int, group: int, mode: int) -> None:
    with suppress(PermissionError):
        os.fchown(opened, -1, group)
        os.fchmod(opened, stat.S_IMODE(os.fstat(opened).st_mode) | mode)


def _write(directory: Path, files: Mapping[str, Entry]) -> None:
    _make_directory(directory, _OPEN)
    for name, entry in files.items():
        target = directory / name
        for parent in reversed(target.relative_to(directory).parents[:-1]):
            _make_directory(directory / parent, _OPEN)
        fresh = target.with_name(f"..{target.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(entry.data)
        fresh.chmod(entry.mode)
        fresh.replace(target)
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif str(path.relative_to(directory)) not in files:
            path.unlink()


def _check_host_path(step: HostPath) -> Problem | None:
    what = f"volume {step.volume}: hostPath {step.path}"
    try:
        mode = _mode_of(step.path)
        if mode is None and step.type in _CREATED:
            _create(step.path, is_file=step.type == "FileOrCreate")
            mode = _mode_of(step.path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise OSError(error.errno, os.strerror(error.errno or 0), str(step.path)) from error
        return Problem(f"{what}: a pod has put a symbolic link into the path, which is not followed")
    if mode is None:
        return Problem(f"{what}: does not exist", "create it, or correct the path")
    is_type = _IS_TYPE.get(step.type)
    if is_type is not None and not is_type(mode):
        return Problem(f"{what}: is not of type {step.type}")
    return None


def _create(real: Path, *, is_file: bool) -> None:
    """Create a directory with its parents, or a file. A link that a pod makes meanwhile is not followed."""
    if not is_file:
        os.close(_walk_down(Path("/"), real.parts[1:])[0])
        return
    directory = open_beneath("/", str(real.parent)[1:] or ".")
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        os.close(os.open(real.name, flags, 0o644, dir_fd=directory))
    finally:
        os.close(directory)


def _mode_of(real: Path) -> int | None:
    """None if there is no such file. Raises OSError with ELOOP if there is a link in the path."""
    try:
        opened = open_beneath("/", str(real)[1:])
    except FileNotFoundError:
        return None
    try:
        return os.fstat(opened).st_mode
    finally:
        os.close(opened)


def _walk_down(base: Path, parts: Sequence[str]) -> tuple[int, str]:
    """Make missing directories; return a descriptor of the last one, or of the first link, and that link.

    By descriptors, without following links: a pod can make one at any time, to anywhere on the host.
    """
    directory = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for index, part in enumerate(parts):
        try:
            with suppress(FileExistsError):
                os.mkdir(part, _OPEN, dir_fd=directory)
            opened = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        finally:
            os.close(directory)
        directory = opened
        if stat.S_ISLNK(os.fstat(directory).st_mode):
            return directory, "/".join(parts[: index + 1])
    return directory, ""
