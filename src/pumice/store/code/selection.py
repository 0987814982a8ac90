"""Selects the files of a directory that are its code: what goes into a bundle, a snapshot and the record of a run.

In a repository, these are the tracked files and those that are not ignored, otherwise all; in both cases without
`.git`, what `.pumiceignore` names, `__pycache__`, Python environments, and what looks like a credential. The rules of
the user's own git configuration do not count, so everybody selects the same.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from pumice.store.code.beneath import DEEPEST, Directory, is_git, leads_out
from pumice.store.code.git_index import SUBMODULE, GitError, IndexEntry
from pumice.store.code.git_repository import Repository, open_repository
from pumice.store.code.ignore_rules import LARGEST as LARGEST_RULES
from pumice.store.code.ignore_rules import Rule, is_ignored, read_rules

MOST_LISTED: Final = 10_000  # files that git does not track
TOO_MANY: Final = f"more than {MOST_LISTED} files"
_CREDENTIAL: Final = re.compile(
    r"\.env.*|.*\.(pem|key|p12|pfx|jks)|id_[^.]*(\.pub)?|[._]netrc|\.git-credentials|\.npmrc|\.pypirc|pip\.conf|"
    r"\.(aws|ssh|gnupg|kube|azure|docker|oci|kaggle|huggingface|password-store|terraform\.d)|kaggle\.json|"
    r"\.(dockercfg|dockerconfigjson|pgpass|my\.cnf|s3cfg|boto|ngc|databrickscfg|vault-token|terraformrc|htpasswd)|"
    r"application_default_credentials\.json|(credentials|access_tokens)\.db|(.*\.)?kubeconfig(\..*)?",
    re.IGNORECASE,
)
_CACHE: Final = "__pycache__"
_ENVIRONMENT: Final = ("pyvenv.cfg", "conda-meta")
# Matches with rules between two looks at the clock, and of one directory in all.
_SOME_RULES: Final = 5000
_MOST_MATCHED: Final = 50_000_000
_COST_OF_RULES: Final = 10  # of a byte of rules that are read, in matches
_READ_OBJECTS: Final = 128 << 20


class CodeFile(Struct, frozen=True):
    path: str  # relative, with slashes
    mode: int  # 0o644 or 0o755
    size: int
    link: str = ""  # where it leads, if it is a symbolic link


class CodeFiles(Struct, frozen=True):
    """The selected files of a directory, sorted, and what was left out."""

    directory: str
    files: tuple[CodeFile, ...]
    credentials: tuple[str, ...] = ()  # left out, because they look like credentials
    outside: tuple[str, ...] = ()  # links that lead out of the directory
    missing: tuple[str, ...] = ()  # what else is not selected, and why
    others: tuple[str, ...] = ()  # directories and files that are there and not selected; of links, those that stay
    is_complete: bool = True  # false: there are more files than are listed


@dataclass(slots=True)
class Scan:
    """What is in a directory. Paths are relative to it."""

    stats: dict[str, os.stat_result] = field(default_factory=dict)  # of the selected files and links
    deleted: list[str] = field(default_factory=list)  # tracked, but gone
    credentials: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # the topmost directories and files that are not selected
    closed: list[str] = field(default_factory=list)  # directories that cannot be read
    is_complete: bool = True
    was_late: bool = False


def select_files(directory: str, without: str = "") -> CodeFiles:
    """Return the files of a directory that are its code, but for `without`. Raises OSError if it cannot be read."""
    with Directory(directory) as opened:
        try:
            with open_repository(directory, _READ_OBJECTS) as repository:
                scan = scan_code(opened, read_checkout(repository, directory), without=without)
        except GitError as error:
            scan = scan_code(opened, Checkout(), without=without)
            scan.missing.append(f"the repository is not used: {error}")
        files, outside = [], []
        for path, found in sorted(scan.stats.items()):
            target = ""
            if stat.S_ISLNK(found.st_mode):
                with suppress(OSError):
                    target = opened.link(path)
                if not target or leads_out(path, target):
                    outside.append(path)
                    continue
            files.append(CodeFile(path, file_mode(found.st_mode), 0 if target else found.st_size, target))
    return CodeFiles(
        directory,
        tuple(files),
        tuple(scan.credentials),
        tuple(outside),
        tuple(scan.missing),
        tuple(scan.others),
        scan.is_complete,
    )


def file_mode(mode: int) -> int:
    return 0o755 if mode & stat.S_IXUSR and not stat.S_ISLNK(mode) else 0o644


class Checkout(Struct, frozen=True):
    """What a repository says about a directory in it."""

    tracked: Mapping[str, IndexEntry] = {}  # by path from the directory
    rules: tuple[Rule, ...] = ()  # for what is ignored, from the files outside of the directory
    prefix: str = ""  # of the directory from the top
    index: tuple[IndexEntry, ...] = ()  # all of it
    in_repository: bool = False


def read_checkout(repository: Repository | None, directory: str) -> Checkout:
    """Raises GitError, also as LateError, and OSError."""
    if repository is None:
        return Checkout()
    prefix, index = repository.prefix(directory), repository.index()
    tracked = {each.path[len(prefix) :]: each for each in index if each.path.startswith(prefix)}
    rules = [*read_rules(repository.exclude())]
    with Directory(repository.top) as top:
        parts = prefix.split("/")[:-1]
        for number in range(len(parts)):
            above = "/".join(parts[:number])
            with suppress(OSError):  # a link, or too large: git does not read it either
                rules += read_rules(top.read(f"{above}/.gitignore" if above else ".gitignore", LARGEST_RULES), above)
    return Checkout(tracked, tuple(rules), prefix, tuple(index), in_repository=True)


@dataclass(slots=True)
class _Scanner:
    directory: Directory
    checkout: Checkout
    own_rules: tuple[Rule, ...]
    without: str  # a directory that is left out
    scan: Scan = field(default_factory=Scan)
    late: Callable[[], bool] = lambda: False
    above: set[str] = field(default_factory=set)  # directories with tracked files
    listed: int = 0
    matched: int = 0  # rules
    stopped: bool = False  # no more time for the rest of a directory

    def is_late(self, rules: int) -> bool:
        """Whether there is no time to match a path with this number of rules, which a pod may have written."""
        before, self.matched = self.matched, self.matched + rules + 1
        self.stopped = self.stopped or self.matched > _MOST_MATCHED
        if before // _SOME_RULES != self.matched // _SOME_RULES:
            self.stopped = self.stopped or self.late()
        return self.stopped

    def enter(self, path: str, rules: tuple[Rule, ...]) -> list[tuple[str, tuple[Rule, ...]]]:
        """Look at one directory; return those below it."""
        base = f"{path}/" if path else ""
        try:
            with os.scandir(self.directory.directory(path)) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self.scan.closed.append(path or ".")
            self.scan.others += [path] if path else []
            self.scan.missing.append(f"{_name(path) or '.'} cannot be read: {(error.strerror or str(error)).lower()}")
            return []
        if self.checkout.in_repository and any(entry.name == ".gitignore" for entry in entries):
            with suppress(OSError):  # a link, or too large: git does not read it either
                content = self.directory.read(f"{base}.gitignore", LARGEST_RULES)
                self.is_late(len(content) * _COST_OF_RULES)
                rules = (*rules, *read_rules(content, f"{self.checkout.prefix}{path}".rstrip("/")))
        below = []
        for entry in entries:
            if self.is_late(len(rules) + len(self.own_rules)):
                self.scan.missing.append(f"the rest of {_name(path) or '.'}: the time was up")
                break
            name = f"{base}{entry.name}"
            if is_git(entry.name):
                self.scan.others.append(name)
                continue
            if entry.is_dir(follow_symlinks=False):
                if self._is_entered(name, entry.name, rules):
                    below.append((name, rules))
                elif name != self.without and entry.name != _CACHE:
                    self.scan.others.append(name)
            elif not self._add(name, entry, rules) and entry.is_file(follow_symlinks=False):
                self.scan.others.append(name)
        return below

    def _is_entered(self, path: str, name: str, rules: tuple[Rule, ...]) -> bool:
        entry = self.checkout.tracked.get(path)
        if entry is not None and entry.mode == SUBMODULE:
            self.scan.missing.append(
                f"{_name(path)} is a submodule (commit {entry.object_id.hex()[:12]}), not recorded with it"
            )
            return False
        if path == self.without or is_ignored(self.own_rules, path, is_directory=True):
            return False
        # What is tracked in an ignored directory is looked for by name.
        if name == _CACHE or is_ignored(rules, self.checkout.prefix + path, is_directory=True):
            return False
        if path.count("/") >= DEEPEST:
            self.scan.missing.append(f"{_name(path)} is more than {DEEPEST} directories deep")
            return False
        if path in self.above:
            return True
        if _CREDENTIAL.fullmatch(name):
            self.scan.credentials.append(f"{_name(path)}/")
            return False
        with suppress(OSError):
            inside = set(os.listdir(self.directory.directory(path)))  # noqa: PTH208 - by descriptor
            if inside.intersection(_ENVIRONMENT):
                return False
            if self.checkout.in_repository and ".git" in inside:
                self.scan.missing.append(f"{_name(path)} is another repository, not recorded with this one")
                return False
        return True

    def _add(self, path: str, entry: os.DirEntry[str], rules: tuple[Rule, ...]) -> bool:
        """False if it is not selected."""
        if is_ignored(self.own_rules, path, is_directory=False):
            return False
        is_tracked = path in self.checkout.tracked
        if not is_tracked and is_ignored(rules, self.checkout.prefix + path, is_directory=False):
            return False
        if _CREDENTIAL.fullmatch(entry.name):
            self.scan.credentials.append(_name(path))
            return False
        if not path.isprintable():
            self.scan.missing.append(f"{_name(path)}: its name is not recorded")
            return False
        if not is_tracked:
            self.listed += 1
            if self.listed > MOST_LISTED:
                return False
        with suppress(OSError):  # it is gone
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
                self.scan.stats[path] = found
                return True
        return False

    def find_missing(self) -> None:
        """Look for tracked files that were not met: below ignored directories, or gone."""
        scan, closed = self.scan, tuple(f"{path}/" for path in self.scan.closed)
        for path, entry in self.checkout.tracked.items():
            if self.is_late(len(self.own_rules)):
                scan.missing.append("which tracked files are gone: the time was up")
                break
            if path in scan.stats or entry.mode == SUBMODULE or path.startswith(closed):
                continue
            if entry.sparse or is_ignored(self.own_rules, path, is_directory=False) or not path.isprintable():
                continue
            if any(map(_CREDENTIAL.fullmatch, path.split("/"))):
                continue
            try:
                scan.stats[path] = self.directory.stat(path)
            except OSError:
                scan.deleted.append(path)


def scan_code(
    directory: Directory, checkout: Checkout, late: Callable[[], bool] = lambda: False, without: str = ""
) -> Scan:
    """Return what a directory has, but for `without`, the upper levels first; what is not reached in time is named.

    Raises OSError.
    """
    content, problem = b"", ""
    try:
        content = directory.read_if_there(".pumiceignore", LARGEST_RULES) or b""
    except OSError as error:
        problem = f".pumiceignore cannot be read: {(error.strerror or str(error)).lower()}"
    scanner = _Scanner(directory, checkout, read_rules(content), without, late=late)
    scanner.scan.missing += [problem] if problem else []
    scanner.above = directories_of(checkout.tracked)
    waiting, scan = deque([("", checkout.rules)]), scanner.scan
    while waiting and not late() and not scanner.stopped and scanner.listed <= MOST_LISTED:
        waiting.extend(scanner.enter(*waiting.popleft()))
    if scanner.listed > MOST_LISTED:
        scan.missing.append(f"{TOO_MANY}: only the first are listed")
    elif waiting and not waiting[0][0]:
        scan.missing.append("which files there are: the time was up")
    elif waiting:
        scan.missing.append(f"{len(waiting)} directories, such as {waiting[0][0]}: the time was up")
    if not waiting and not scanner.stopped and scanner.listed <= MOST_LISTED:
        scanner.find_missing()
    scan.was_late = scanner.listed <= MOST_LISTED and (bool(waiting) or scanner.stopped)
    scan.is_complete = not waiting and not scanner.stopped and scanner.listed <= MOST_LISTED
    return scan


def _name(path: str) -> str:
    """Return a path as it is named: one that is not UTF-8 cannot be stored, and some would change what is shown."""
    return path if path.isprintable() else ascii(path)


def directories_of(paths: Iterable[str]) -> set[str]:
    """Return the directories above paths, without the top."""
    found = set[str]()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found
