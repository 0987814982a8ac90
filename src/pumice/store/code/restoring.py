"""Makes the code of a run again: the commit, from the objects of its repository, with what was recorded besides.

Nothing of the repository is executed: no hook, filter or configuration counts.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from pumice.model.units import size_text
from pumice.store.code.beneath import is_inside, leads_out
from pumice.store.code.bundles import LARGEST, Bundle, pack
from pumice.store.code.git_index import DIRECTORY, LINK, SUBMODULE, GitError
from pumice.store.code.git_objects import walk_tree
from pumice.store.code.git_repository import open_repository
from pumice.store.code.patches import apply_patch
from pumice.store.code.run_code import DELETED, RecordedFile, RunCode, read_code
from pumice.store.code.selection import CodeFile, file_mode
from pumice.store.run_errors import IncompleteCodeError

__all__ = ["Bundle", "restore", "restore_run"]

_MOST_READ = 8 << 30
_MOST_FILES = 1_000_000
_MOST_NAMED = 50  # of what is missing
_Contents = dict[str, tuple[CodeFile, bytes]]


def restore_run(run_directory: Path) -> Bundle | None:
    """Return the bundle of the code of a run; None if none is recorded. Raises IncompleteCodeError."""
    code = read_code(run_directory)
    return None if code is None else restore(code)


def restore(code: RunCode) -> Bundle:
    """Return the bundle of the code as it was recorded. Raises IncompleteCodeError, which names all that is missing."""
    contents: _Contents = {}
    missing = list(code.missing)
    recorded = {file.path: file for file in code.files}
    if code.commit:
        try:
            contents |= _committed(code, recorded)
        except (GitError, OSError) as error:
            text = str(error) if isinstance(error, GitError) else (error.strerror or str(error)).lower()
            missing.insert(0, f"commit {code.commit} from {code.top}: {text}")
            raise incomplete(missing) from error
    for path, file in recorded.items():
        if file.change == DELETED:
            contents.pop(path, None)
            continue
        try:
            contents[path] = _recorded(file, contents.get(path))
        except ValueError as error:
            missing.append(f"{path}: {error}")
    missing += _refused(contents)
    if missing:
        raise incomplete([*code.notes, *missing])
    return pack(contents.values(), code.credentials)


def incomplete(missing: Sequence[str]) -> IncompleteCodeError:
    shown = [*missing[:_MOST_NAMED]]
    if len(missing) > len(shown):
        shown.append(f"and {len(missing) - len(shown)} more")
    return IncompleteCodeError("\n  ".join(("the code is not complete; missing:", *shown)))


def _committed(code: RunCode, recorded: dict[str, RecordedFile]) -> Iterator[tuple[str, tuple[CodeFile, bytes]]]:
    """Yield the files of the commit that are needed, by path from the directory of the run. Raises GitError."""
    with open_repository(code.directory, _MOST_READ) as repository:
        if repository is None or repository.top != code.top:
            raise GitError("there is no repository any more")
        objects = repository.objects
        root: bytes | None = objects.tree_of(bytes.fromhex(code.commit))
        for name in repository.prefix(code.directory).split("/")[:-1]:
            above = objects.read_tree("", root).get(name) if root else None
            root = above.object_id if above is not None and above.mode == DIRECTORY else None
        total = 0
        for number, (path, entry) in enumerate(walk_tree(objects.read_tree, root) if root else ()):
            file = recorded.get(path)
            if file is not None and file.patch is None:
                continue
            is_submodule = entry.mode == SUBMODULE  # the record names it
            content = b"" if is_submodule else objects.read(entry.object_id, "blob")
            total += len(content)
            if total > LARGEST or number > _MOST_FILES:
                raise GitError(f"it has more than {size_text(LARGEST)}, or {_MOST_FILES} files; use git for that")
            if stat.S_IFMT(entry.mode) == LINK:
                yield path, (CodeFile(path, 0o777, 0, os.fsdecode(content)), b"")
            elif not is_submodule:
                yield path, (CodeFile(path, file_mode(entry.mode), len(content)), content)


def _recorded(file: RecordedFile, base: tuple[CodeFile, bytes] | None) -> tuple[CodeFile, bytes]:
    """Raises ValueError if its content is not there."""
    if file.unsteady:
        raise ValueError("it changed while it was recorded")
    if file.link:
        return CodeFile(file.path, 0o777, 0, file.link), b""
    if file.content is not None:
        content = file.content
    elif file.patch is not None and base is not None:
        content = apply_patch(base[1], file.patch)
    else:
        kept = f"only its hash is recorded (sha256 {file.sha256})" if file.sha256 else "its content is not recorded"
        raise ValueError(f"{size_text(file.size)}, {kept}")
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise ValueError("what is recorded of it does not fit the commit")
    return CodeFile(file.path, file.mode, len(content)), content


def _refused(contents: _Contents) -> Iterator[str]:
    """Yield what is not written: paths and links that lead out of the directory."""
    for path, (file, _) in contents.items():
        if not is_inside(path) or not path.isprintable():
            yield f"{path!a}: such a path is refused"
        elif file.link and leads_out(path, file.link):
            yield f"{path}: a link that leads out of the directory is refused"
