"""Finds the repository of a directory, and reads its commit, index and objects. No configuration of it is obeyed.

Why no library: dulwich and pygit2 (17 MB with libgit2) open paths and follow links, `alternates` and `core.worktree`,
read the configuration that a pod may have written, and do not bound what an object unfolds to. All that is needed here
are four formats that have not changed for years, each read in a few lines beneath a directory without links.

Why no `git`: a repository's configuration names programs (fsmonitor, filters, textconv, hooks), which it starts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from pumice.store.code.beneath import Directory
from pumice.store.code.git_index import LARGEST as LARGEST_INDEX
from pumice.store.code.git_index import MOST, GitError, IndexEntry, LateError, read_index
from pumice.store.code.git_objects import ObjectStore, walk_tree

_SMALL: Final = 1 << 16
_CONFIG: Final = 1 << 20
_PACKED_REFS: Final = 64 << 20
_ID: Final = re.compile(r"[0-9a-f]{40}")
_REF: Final = re.compile(r"refs/(?!.*(?:\.\.|//|/\.|\.lock(?:/|$)))[\w./@+=,%#-]+")
_HOPS: Final = 5


@dataclass(frozen=True, slots=True)
class Repository:
    top: str  # its working tree
    commit: str  # "" if it has none yet
    branch: str  # "" if HEAD is detached
    own: Directory  # the index and HEAD of this working tree
    common: Directory  # what all working trees share
    objects: ObjectStore

    def index(self) -> list[IndexEntry]:
        """Return the tracked files; those of the commit if the index cannot be read.

        Raises GitError, also as LateError.
        """
        try:
            content = self.own.read_if_there("index", LARGEST_INDEX)
        except OSError as error:
            raise GitError(f"its index cannot be read: {(error.strerror or str(error)).lower()}") from error
        try:
            return [] if content is None else read_index(content, self.objects.late)
        except GitError as error:
            if not self.commit or isinstance(error, LateError):
                raise
            root = self.objects.tree_of(bytes.fromhex(self.commit))
            committed = sorted(islice(walk_tree(self.objects.read_tree, root), MOST + 1))
            if len(committed) > MOST:
                raise
            return [IndexEntry(path, *entry, 0, 0, 0, 0, sparse=False, intended=False) for path, entry in committed]

    def prefix(self, directory: str) -> str:
        """Return the path of a directory from the top: "", or with a slash at its end."""
        below = os.path.relpath(os.path.realpath(directory), self.top)
        return "" if below == "." else f"{below}/"

    def exclude(self) -> bytes:
        """Return the rules of the repository for what is ignored; a link is not followed."""
        with suppress(OSError):
            return self.common.read("info/exclude", _SMALL)
        return b""


@contextmanager
def open_repository(directory: str, most: int, late: Callable[[], bool] = lambda: False) -> Iterator[Repository | None]:
    """Yield the repository whose working tree has the directory; None without one.

    `most` bounds the bytes of its objects that are read, and `late` the time. Raises GitError if it is refused or
    damaged.
    """
    top = _find(directory)
    if top is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            own, common = _open(top, stack)
            for content in (common.read_if_there("config", _CONFIG), own.read_if_there("config.worktree", _CONFIG)):
                worktree = _worktree(content or b"")
                if worktree is not None and _joined(own.path, worktree) != top:  # its files are not these
                    raise GitError(f"{own.path} names another working tree (core.worktree), which is refused")
            commit, branch = _head(own, common)
        except OSError as error:
            raise GitError(f"{top}/.git cannot be read: {(error.strerror or str(error)).lower()}") from error
        objects = ObjectStore(common, most, late)
        stack.callback(objects.close)
        yield Repository(top, commit, branch, own, common, objects)


def _find(directory: str) -> str | None:
    """Return the next directory upwards that has a `.git` of the same owner, or of this user."""
    path = os.path.realpath(directory)
    owners = {os.geteuid(), os.stat(path).st_uid}  # noqa: PTH116 - of a text
    while True:
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.lstat(f"{path}/.git").st_uid in owners:
                return path
        if path in ("", "/"):
            return None
        path = path.rpartition("/")[0]


def _open(top: str, stack: ExitStack) -> tuple[Directory, Directory]:
    """Open the directory of this working tree, and the one with the objects."""
    git = f"{top}/.git"
    mode = os.lstat(git).st_mode
    if stat.S_ISDIR(mode):
        own = stack.enter_context(Directory(git, follow=False))
        if own.read_if_there("commondir", _SMALL) is not None:
            raise GitError(f"{git} shares another repository, which is refused")
        return own, own
    if not stat.S_ISREG(mode):
        raise GitError(f"{git} is a link, which is not followed")
    with Directory(top) as directory:
        word, _, target = directory.read(".git", _SMALL).decode("utf-8", "surrogateescape").strip().partition(": ")
    path = _joined(top, target)
    if word != "gitdir" or not Path(path).is_dir() or os.path.realpath(path) != path:
        raise GitError(f"{git} leads to {target!r}, which is no repository")
    own = stack.enter_context(Directory(path, follow=False))
    if (back := own.read_if_there("gitdir", _SMALL)) is not None:
        # The repository of a linked working tree. It must name the working tree: a pod can name any repository.
        parent, _, _ = path.rpartition("/worktrees/")
        common = (own.read_if_there("commondir", _SMALL) or b"").decode("utf-8", "surrogateescape").strip()
        claims = os.path.normpath(back.decode("utf-8", "surrogateescape").strip())
        if claims != git or not parent or _joined(path, common) != parent:
            raise GitError(f"{git} leads to {path}, which does not belong to it, and is refused")
        return own, stack.enter_context(Directory(parent, follow=False))
    # A submodule, whose repository names it.
    worktree = _worktree(own.read_if_there("config", _CONFIG) or b"")
    above, inside, _ = path.partition("/.git/modules/")
    if not inside or not top.startswith(f"{above}/") or worktree is None or _joined(path, worktree) != top:
        raise GitError(f"{git} leads to {path}, which does not belong to it, and is refused")
    return own, own


def _worktree(config: bytes) -> str | None:
    found = None
    for line in config.splitlines():
        words = line.strip()
        name, _, value = (words.partition(b"]")[2] if words.startswith(b"[") else words).partition(b"=")
        if name.strip().lower() == b"worktree":
            found = value
    return None if found is None else found.decode("utf-8", "surrogateescape").strip().strip('"')


def _joined(base: str, path: str) -> str:
    return os.path.normpath(Path(base, path))


def _head(own: Directory, common: Directory) -> tuple[str, str]:
    """Return the commit and the branch. Raises GitError and OSError."""
    content = own.read_if_there("HEAD", _SMALL)
    if content is None:
        raise GitError(f"{own.path} has no HEAD")
    text, branch = content.decode("utf-8", "replace").strip(), ""
    for _ in range(_HOPS):
        if _ID.fullmatch(text):
            return text, branch
        word, _, name = text.partition(": ")
        if word != "ref" or not _REF.fullmatch(name):
            raise GitError(f"{own.path}/HEAD cannot be read: only SHA-1 objects and refs in files are known")
        branch = branch or name.removeprefix("refs/heads/")
        loose = common.read_if_there(name, _SMALL)
        if loose is None:
            packed = common.read_if_there("packed-refs", _PACKED_REFS) or b""
            found = re.search(rb"(?m)^([0-9a-f]{40}) " + re.escape(name.encode()) + rb"$", packed)
            return found[1].decode() if found else "", branch
        text = loose.decode("utf-8", "replace").strip()
    raise GitError(f"{own.path}/HEAD leads in a circle")
