"""Which files of the code changed since it was recorded. New files do not count: pods write files there, too."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from msgspec import Struct

from pumice.store.code.beneath import Directory
from pumice.store.code.git_index import SUBMODULE, GitError, LateError, TreeEntry, object_id
from pumice.store.code.git_objects import tree_changes
from pumice.store.code.git_repository import open_repository
from pumice.store.code.recording import read_directory, read_file
from pumice.store.code.run_code import DELETED, UNTRACKED, RecordedFile, RunCode

_MOST_READ = 128 << 20


class CodeChanges(Struct, frozen=True):
    files: tuple[str, ...]  # recorded files that changed or are gone
    is_complete: bool = True  # false: the time was up before all of them were compared


def changed_files(
    before: RunCode, is_late: Callable[[], bool], scan_late: Callable[[], bool] | None = None
) -> CodeChanges:
    """Return which recorded files changed or are gone. Raises OSError and GitError."""
    late = _Noted(is_late)
    now = read_directory(before.directory, late, scan_late, keep=0)
    differing = {file.path for file in now.files if file.change != UNTRACKED} if before.commit else set()
    known: dict[str, RecordedFile | TreeEntry] = {}
    if before.commit and now.commit and before.commit != now.commit:
        with suppress(LateError):  # which `late` remembers
            known |= _commit_changes(before, now.commit, late)
    known |= {file.path: file for file in before.files}
    with Directory(before.directory) as directory:
        changed = {path for path, file in known.items() if not _is_same(directory, path, file, late)}
    if before.was_late:
        # What is not recorded may have differed from the commit then, too.
        return CodeChanges(tuple(sorted(changed)), is_complete=False)
    # What equals neither the commit nor what was recorded, whose commit is the same.
    return CodeChanges(tuple(sorted(changed | (differing - known.keys()))), not (late.was or now.was_late))


@dataclass(slots=True)
class _Noted:
    """Remembers whether somebody was told that the time is up, and left something out."""

    late: Callable[[], bool]
    was: bool = False

    def __call__(self) -> bool:
        self.was = self.was or self.late()
        return self.was


def _commit_changes(before: RunCode, commit: str, late: Callable[[], bool]) -> dict[str, TreeEntry]:
    """Return what the commit before had, by path from the directory, where the commit now differs.

    Raises GitError, also as LateError.
    """
    with open_repository(before.directory, _MOST_READ, late) as repository:
        if repository is None:
            raise GitError(f"{before.top} is no repository any more")
        objects = repository.objects
        old, new = (objects.tree_of(bytes.fromhex(each)) for each in (before.commit, commit))
        changes = tree_changes(objects.read_tree, old, objects.read_tree, new)
    prefix = repository.prefix(before.directory)
    return {
        path[len(prefix) :]: entry
        for path, entry in changes.items()
        # A file that the commit did not have is new, or was recorded as untracked.
        if path.startswith(prefix) and entry is not None and entry.mode != SUBMODULE
    }


def _is_same(directory: Directory, path: str, before: RecordedFile | TreeEntry, late: Callable[[], bool]) -> bool:
    with suppress(OSError):
        found = directory.stat(path)
        if stat.S_ISLNK(found.st_mode):
            target = directory.link(path)
            if isinstance(before, RecordedFile):
                return before.link == target
            return before.object_id == object_id("blob", os.fsencode(target))
        if isinstance(before, RecordedFile) and not before.sha256:
            return before.change != DELETED and before.size == found.st_size
        file = read_file(directory, path, late)
        if isinstance(before, RecordedFile):
            return file.sha256 in ("", before.sha256)
        return file.blob in (b"", before.object_id)
    return isinstance(before, RecordedFile) and before.change == DELETED
