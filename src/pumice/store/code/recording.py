"""Records the code of a directory: the commit, what differs from it, and the contents that fit; and what changed since.

Git's index is believed about unchanged files only where there are too many to read them all. New files are no change:
pods write files there, too.
"""

from __future__ import annotations

import gc
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pumice.store.code.beneath import Directory
from pumice.store.code.git_index import SUBMODULE, GitError, IndexTrees, LateError, TreeEntry, object_id
from pumice.store.code.git_objects import MissingObjectError, tree_changes
from pumice.store.code.git_repository import Repository, open_repository
from pumice.store.code.patches import make_patch
from pumice.store.code.run_code import DELETED, MODIFIED, UNTRACKED, RecordedFile, RunCode, write_code
from pumice.store.code.selection import Checkout, Scan, file_mode, read_checkout, scan_code
from pumice.store.settings import Settings

SECONDS: Final = 1.0  # that recording has
SCAN_SECONDS: Final = 0.7  # of them, to list the files: what is found must be read, too
MOST_KEPT: Final = 1 << 20  # bytes of patches and contents
_MOST_READ: Final = 128 << 20  # bytes of objects
# Tracked files, and bytes of them, that are all read; of more, those that the index does not know.
_MOST_VERIFIED: Final = 5000
_MOST_VERIFIED_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20
_Late = Callable[[], bool]


def code_of(settings: Settings) -> RunCode:
    """Return the code that the pods of a run see, as far as a second suffices to read it. It raises nothing."""
    directory = str(settings.workdir)
    if not settings.share_workdir:
        return RunCode(directory=directory, missing=(f"pods do not see {directory}",))
    # Garbage is not looked for among hundreds of thousands of files: it takes a fifth of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        own = os.path.relpath(os.path.realpath(settings.state), os.path.realpath(directory))
        return read_directory(directory, deadline(SECONDS), deadline(SCAN_SECONDS), without=own)
    except Exception as error:  # noqa: BLE001 - whatever a pod left there, the run goes on
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else f"{error!r}"
        return RunCode(directory=directory, missing=(f"{directory} cannot be read: {why}",))
    finally:
        if was_enabled:
            gc.enable()


def record_code(settings: Settings, run_directory: Path) -> None:
    """Record the code of a run in its directory. On a full disk it is not recorded, which `get --code` says."""
    code = code_of(settings)
    with suppress(OSError):
        write_code(run_directory, code)


def deadline(seconds: float) -> _Late:
    """Return what says whether so many seconds have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def read_directory(
    directory: str, late: _Late, scan_late: _Late | None = None, *, keep: int = MOST_KEPT, without: str = ""
) -> RunCode:
    """Return the code of a directory as it is now, with up to `keep` bytes of patches and contents. Raises OSError.

    When `scan_late` is true, no more files are listed. `without` is a directory in it that is no code.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(Directory(directory))
        notes: tuple[str, ...] = ()
        try:
            repository = stack.enter_context(open_repository(directory, _MOST_READ, late))
            checkout = read_checkout(repository, directory)
        except LateError as error:
            assert repository is not None  # noqa: S101 - it has the index
            missing = (f"which files differ from the commit: {error}",)
            return RunCode(directory=directory, missing=missing, was_late=True, **_position(repository))
        except GitError as error:
            repository, checkout, notes = None, Checkout(), (f"the commit: {error}",)
        scan = scan_code(opened, checkout, scan_late or late, without)
        return _Recording(opened, repository, checkout, scan, late, keep, notes).code()


@dataclass(slots=True)
class _Recording:
    directory: Directory
    repository: Repository | None
    checkout: Checkout
    scan: Scan
    late: _Late
    left: int  # bytes that are kept
    notes: tuple[str, ...] = ()
    files: list[RecordedFile] = field(default_factory=list)
    was_late: bool = False

    def code(self) -> RunCode:
        repository, scan = self.repository, self.scan
        base = self._base() if repository is not None else {}
        for path in scan.deleted:
            if path in base:
                self.files.append(RecordedFile(path=path, change=DELETED))
        if repository is None and (
            not scan.is_complete or sum(each.st_size for each in scan.stats.values()) > self.left
        ):
            self.left = 0  # all or nothing: some files of a directory are of no use without the others
        unread = []
        for path in sorted(self._candidates(base), key=lambda path: scan.stats[path].st_size):
            if self.late():
                unread.append(path)
                found = scan.stats[path]
                if path not in base:
                    self.files.append(RecordedFile(path=path, mode=file_mode(found.st_mode), size=found.st_size))
            elif (file := self._read(path, base.get(path))) is not None:
                self.files.append(file)
        if unread:
            scan.missing.append(f"{len(unread)} files were not read, such as {min(unread)}: the time was up")
            self.was_late = True
        return RunCode(
            directory=self.directory.path,
            **_position(repository),
            files=tuple(sorted(self.files, key=lambda file: file.path)),
            credentials=tuple(sorted(scan.credentials)),
            missing=tuple(scan.missing),
            notes=self.notes,
            was_late=self.was_late or scan.was_late,
        )

    def _base(self) -> dict[str, TreeEntry]:
        """Return what the commit has, as far as the index or a file may differ from it; by path from the directory."""
        repository, prefix = self.repository, self.checkout.prefix
        tracked = self.checkout.tracked
        base = {path: TreeEntry(entry.mode, entry.object_id) for path, entry in tracked.items()}
        if repository is None or not repository.commit:
            return {}
        try:
            before = repository.objects.tree_of(bytes.fromhex(repository.commit))
            trees = IndexTrees(self.checkout.index)
            changes = tree_changes(repository.objects.read_tree, before, trees.read_tree, trees.root)
        except GitError as error:
            self.scan.missing.append(f"the difference of the index from the commit: {error}")
            self.was_late = self.was_late or isinstance(error, LateError)
            return base
        for path, entry in changes.items():
            below = path[len(prefix) :]
            if not path.startswith(prefix):
                continue
            if entry is None:
                base.pop(below, None)
            elif entry.mode != SUBMODULE:
                base[below] = entry
                if below not in tracked and below not in self.scan.stats and self.scan.is_complete:
                    if below.isprintable():
                        self.scan.deleted.append(below)
                    else:
                        self.scan.missing.append(f"{below!a}: its name is not recorded")
        return base

    def _candidates(self, base: Mapping[str, TreeEntry]) -> Iterator[str]:
        """Yield the files that may differ from the commit."""
        stats, tracked = self.scan.stats, self.checkout.tracked
        known = [stats[path].st_size for path in stats if path in base]
        verify = len(known) <= _MOST_VERIFIED and sum(known) <= _MOST_VERIFIED_BYTES
        for path, found in stats.items():
            entry, was = tracked.get(path), base.get(path)
            same = entry is not None and was is not None and entry.object_id == was.object_id
            if verify or not same or entry is None or entry.stage:
                yield path
                continue
            low = (1 << 32) - 1
            in_index = (entry.mtime, entry.size, entry.inode, stat.S_IFMT(entry.mode))
            if in_index != (found.st_mtime_ns, found.st_size & low, found.st_ino & low, stat.S_IFMT(found.st_mode)):
                yield path

    def _read(self, path: str, base: TreeEntry | None) -> RecordedFile | None:
        """Return what is recorded of a file; None if the commit has it."""
        found = self.scan.stats[path]
        file = RecordedFile(
            path=path, change=MODIFIED if base else UNTRACKED, mode=file_mode(found.st_mode), size=found.st_size
        )
        try:
            if stat.S_ISLNK(found.st_mode):
                target = self.directory.link(path)
                content = os.fsencode(target)
                if content.decode(errors="replace") != target:
                    self.scan.missing.append(f"{path} leads to {target!a}, which is not recorded")
                    return None
                file = replace(file, link=target, sha256=hashlib.sha256(content).hexdigest(), size=0)
                same = base is not None and stat.S_ISLNK(base.mode) and object_id("blob", content) == base.object_id
                return None if same else file
            now = read_file(self.directory, path, self.late)
        except OSError as error:
            self.scan.missing.append(f"{path} cannot be read: {(error.strerror or str(error)).lower()}")
            return file
        if (
            base is not None
            and now.blob == base.object_id
            and stat.S_ISREG(base.mode)
            and file_mode(base.mode) == file.mode
        ):
            return None
        before, after = ((each.st_mtime_ns, each.st_size, each.st_ino) for each in (found, now.found))
        file = replace(file, size=now.found.st_size, sha256=now.sha256, unsteady=before != after)
        return self._with_content(file, now.content, base)

    def _with_content(self, file: RecordedFile, content: bytes | None, base: TreeEntry | None) -> RecordedFile:
        """Keep the patch or the content, if it fits."""
        if content is None or not self.left:
            return file
        patch = None
        if base is not None and stat.S_ISREG(base.mode) and self.repository is not None:
            try:
                patch = make_patch(self.repository.objects.read(base.object_id, "blob"), content)
            except MissingObjectError:
                patch = None  # the whole content is kept instead
            except GitError as error:
                self.scan.missing.append(f"{file.path}: {error}")
        size = len(content) if patch is None else len(patch.encode())
        if size > self.left:
            return file
        self.left -= size
        return replace(file, content=content) if patch is None else replace(file, patch=patch)


def _position(repository: Repository | None) -> dict[str, Any]:
    if repository is None:
        return {}
    return {"top": repository.top, "commit": repository.commit, "branch": repository.branch}


class ReadFile(NamedTuple):
    sha256: str  # "" if the time was up
    blob: bytes  # the id that git would give it
    content: bytes | None  # if it is small
    found: os.stat_result  # what is known of it afterwards


def read_file(directory: Directory, path: str, late: _Late) -> ReadFile:
    """Raises OSError."""
    descriptor = directory.open(path)
    try:
        size = os.fstat(descriptor).st_size
        sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        parts, read = [], 0
        while part := os.read(descriptor, _CHUNK):
            read += len(part)
            sha256.update(part)
            blob.update(part)
            if read <= MOST_KEPT:
                parts.append(part)
            if late():
                return ReadFile("", b"", None, os.fstat(descriptor))
        content = b"".join(parts) if read <= MOST_KEPT else None
        return ReadFile(sha256.hexdigest(), blob.digest(), content, os.fstat(descriptor))
    finally:
        os.close(descriptor)


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
    """Remembers whether a caller saw that the time is up, and left something out."""

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
