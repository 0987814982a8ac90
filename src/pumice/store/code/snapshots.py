"""Snapshots: the code of a run as it was submitted, in the directory of the run, where its pods see and change it.

Pods get the snapshot in place of their working directory, and in it, as mounts, what is no code: those entries stay the
live ones. So a snapshot needs no file system that the kernel may refuse, and what pods write is theirs or live.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pumice.model.problem import Option, Position
from pumice.model.units import size_text
from pumice.store.code.beneath import Directory
from pumice.store.code.bundles import LARGEST
from pumice.store.code.selection import MOST_LISTED, TOO_MANY, CodeFiles, select_files
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.remove_tree import remove_tree
from pumice.store.options import Isolation, RunOptions
from pumice.store.run_errors import InvalidOption, WrongState
from pumice.store.settings import Settings

SNAPSHOT: Final = "snapshot"  # of the directory of a run
OPTION: Final = Position(option="snapshot")
SNAPSHOT_LIST: Final = "snapshot.json"  # which files were copied
_STAGED: Final = "snapshots"  # of the state directory, by uid, until the run is stored
_MOST_ENTRIES: Final = 256
_MOST_CREATED: Final = 1000  # files that are listed
# Bytes and files whose copy is announced.
_LARGE: Final = 16 << 20
_MANY: Final = 2000
_FICLONE: Final = 0x40049409
_NO_CLONES: Final = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM)
_CACHE: Final = "__pycache__"


class Snapshot(Struct, frozen=True):
    directory: Path
    live: tuple[str, ...]  # what is mounted in it, by path from the working directory


def check_snapshot(options: RunOptions, *, is_new: bool) -> None:
    """Raises InvalidOption if the run cannot have the snapshot that it asks for."""
    if not options.settings.snapshot:
        return
    if options.isolation is Isolation.PROCESS:
        no = "not with plain processes, which see the working directory itself"
        raise InvalidOption(no, ("leave out ", Option("isolation", "process")), OPTION)
    if is_new:
        select_code(options.settings)


def select_code(settings: Settings) -> CodeFiles:
    """Return what a snapshot would have. Raises InvalidOption if it is too large, or not all of it can be read."""
    directory = str(settings.workdir)
    if not settings.share_workdir:
        raise InvalidOption(f"pods do not see {directory}", "use another working directory", OPTION)
    try:
        own = os.path.relpath(os.path.realpath(settings.state), os.path.realpath(directory))
        code = select_files(directory, own)
    except OSError as error:
        raise InvalidOption(f"{directory}: {(error.strerror or str(error)).lower()}", "", OPTION) from error
    if not code.is_complete:
        many = f"{TOO_MANY} besides those that git tracks" if len(code.files) >= MOST_LISTED else "too many rules"
        message = f"{directory} has {many}, and not all would be copied"
        raise InvalidOption(message, "name what is no code in .pumiceignore", OPTION)
    total = sum(file.size for file in code.files)
    if total > LARGEST:
        largest = max(code.files, key=lambda file: file.size)
        raise InvalidOption(
            f"{size_text(total)} of code in {directory}: at most {size_text(LARGEST)} are copied",
            f"name what is no code in .pumiceignore; the largest file is {largest.path} ({size_text(largest.size)})",
            OPTION,
        )
    if len(code.others) > _MOST_ENTRIES:
        names = ", ".join(code.others[:3])
        raise InvalidOption(
            f"{len(code.others)} files and directories of {directory} are no code, at most {_MOST_ENTRIES} "
            f"can stay the live ones: {names}, ...",
            "move them into a directory",
            OPTION,
        )
    return code


def copy_note(settings: Settings) -> str:
    """Return what is said before the code is copied; empty for a small copy. Raises InvalidOption."""
    return _note(select_code(settings))


def _note(code: CodeFiles) -> str:
    size, files = sum(file.size for file in code.files), len(code.files)
    is_large = size > _LARGE or files > _MANY
    return f"copying {size_text(size)} of code, of {files} files, for the snapshot" if is_large else ""


def take_snapshot(settings: Settings, uid: str, announce: Callable[[str], None] = lambda _: None) -> None:
    """Copy the code of a run, until the run is stored; a large copy is announced.

    Raises InvalidOption, and OSError for the copy; then none is left.
    """
    code, staged = select_code(settings), _staged(settings.state, uid)
    if note := _note(code):
        announce(note)
    try:
        staged.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = staged / f"{SNAPSHOT}.new"
        fresh.mkdir()
        fresh.chmod(settings.workdir.stat().st_mode & 0o777)
        with Directory(code.directory) as live, Directory(str(fresh)) as copy:
            left, live_parts = LARGEST, tuple(f"{path}/" for path in code.others)
            copied = (file.path for file in code.files if not file.path.startswith(live_parts))
            for path in (*copied, *code.outside):
                left -= _copy(live, copy, path, left)
        names = [*(file.path for file in code.files), *code.outside]
        replace_file(staged / SNAPSHOT_LIST, msgspec.json.encode(names), sync=False)
        fresh.rename(staged / SNAPSHOT)
    except BaseException:
        remove_tree(staged)
        raise


def drop_snapshot(state: Path, uid: str) -> None:
    """Remove the snapshot of a run that is not stored, if it has one."""
    remove_tree(_staged(state, uid))


def _staged(state: Path, uid: str) -> Path:
    return state / _STAGED / uid


def adopt_snapshot(settings: Settings, run_directory: Path, uid: str) -> Snapshot:
    """Return the snapshot of a run, which has it, or gets what was taken for it.

    Raises WrongState if it is gone, InvalidOption and OSError.
    """
    staged = _staged(settings.state, uid)
    if not (run_directory / SNAPSHOT).is_dir():
        if not (staged / SNAPSHOT).is_dir():
            raise WrongState("the snapshot of the run is gone", "submit it again")
        (staged / SNAPSHOT_LIST).rename(run_directory / SNAPSHOT_LIST)
        (staged / SNAPSHOT).rename(run_directory / SNAPSHOT)
        remove_tree(staged)
    live = select_code(settings).others
    with Directory(str(settings.workdir)) as source, Directory(str(run_directory / SNAPSHOT)) as copy:
        return Snapshot(run_directory / SNAPSHOT, tuple(path for path in live if _make_mount_point(source, copy, path)))


def created_files(run_directory: Path, snapshot: Snapshot) -> list[str]:
    """Return the paths of what pods created among the code, up to a number; of what cannot be read, nothing."""
    known = set(msgspec.json.decode((run_directory / SNAPSHOT_LIST).read_bytes(), type=list[str]))
    known.update(snapshot.live)
    found, waiting = list[str](), [""]
    while waiting and len(found) < _MOST_CREATED:
        base = waiting.pop()
        below = []
        with suppress(OSError), os.scandir(snapshot.directory / base) as listing:
            for entry in sorted(listing, key=lambda entry: entry.name):
                path = f"{base}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    below += [f"{path}/"] if entry.name != _CACHE and path not in known else []
                elif path not in known:
                    found.append(entry.path.encode("utf-8", "backslashreplace").decode())
        waiting += reversed(below)
    return found[:_MOST_CREATED]


def _copy(live: Directory, copy: Directory, path: str, most: int) -> int:
    """Copy a file or a link, and return its size; nothing, if it is gone.

    Raises InvalidOption if it cannot be read or has become too large, and OSError.
    """
    above, _, name = path.rpartition("/")
    try:
        found = live.stat(path)
        target_of_link = live.link(path) if stat.S_ISLNK(found.st_mode) else ""
        source = -1 if target_of_link else live.open(path)
    except FileNotFoundError:
        return 0
    except OSError as error:
        message = f"{path}: {(error.strerror or str(error)).lower()}, so it cannot be copied"
        raise InvalidOption(message, "make it readable, or name it in .pumiceignore", OPTION) from error
    if target_of_link:
        os.symlink(target_of_link, name, dir_fd=_make_directories(live, copy, above))
        return 0
    try:
        _make_directories(live, copy, above)
        target = copy.create(path, 0o600)
        try:
            _copy_content(source, target, most, path)
            os.fchmod(target, found.st_mode & 0o777)
            return os.fstat(target).st_size
        finally:
            os.close(target)
    finally:
        os.close(source)


def _copy_content(source: int, target: int, most: int, path: str) -> None:
    """A file may grow while it is copied. Raises InvalidOption if it has become too large, and OSError."""
    size = os.fstat(source).st_size
    if size <= most:
        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError as error:
            if error.errno not in _NO_CLONES:
                raise
            while size > 0 and (sent := os.sendfile(target, source, None, size)):
                size -= sent
    if size > most or os.fstat(target).st_size > most:
        raise InvalidOption(f"{path} has become larger than can be copied", "name it in .pumiceignore", OPTION)


def _make_directories(live: Directory, copy: Directory, path: str) -> int:
    """Make a directory as the live one is; return its descriptor."""
    if path:
        above, _, name = path.rpartition("/")
        parent = _make_directories(live, copy, above)
        try:
            os.mkdir(name, dir_fd=parent)
        except FileExistsError:
            return copy.directory(path)
        os.fchmod(copy.directory(path), live.stat(path).st_mode & 0o777)
    return copy.directory(path)


def _make_mount_point(live: Directory, copy: Directory, path: str) -> bool:
    """Make what is mounted over. False if it cannot be: a pod has put something else there, or it is gone."""
    above, _, name = path.rpartition("/")
    try:
        mode = live.stat(path).st_mode
        if stat.S_ISLNK(mode):
            return False
        is_directory = stat.S_ISDIR(mode)
        parent = _make_directories(live, copy, above)
        if is_directory:
            os.mkdir(name, dir_fd=parent)
        else:
            os.close(copy.create(path, 0o644))
    except FileExistsError:
        return stat.S_ISDIR(copy.stat(path).st_mode) == is_directory
    except OSError:
        return False
    return True
