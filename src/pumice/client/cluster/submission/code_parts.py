"""The code of a Job as parts of at most 1,000,000 bytes, which Secrets hold. The same files give the same parts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pumice.model.problem import Option, Position
from pumice.model.text import plural, some
from pumice.model.units import size_text
from pumice.store.code.beneath import Directory
from pumice.store.code.bundles import Bundle, make_bundle
from pumice.store.code.selection import CodeFiles, select_files
from pumice.store.never_shared import is_never_shared, why_not
from pumice.store.options import ClusterOptions, CodeMode
from pumice.store.run_errors import InvalidOption

LARGEST_PART: Final = 1_000_000  # bytes: a Secret holds a MiB, and a request to etcd 1.5 MiB
LARGEST_LIMIT: Final = 16 << 20
ID_LENGTH: Final = 12
PREFIX: Final = "pumice-code-"  # of the names of the Secrets
INDEX: Final = "index"  # the key with the files of a read-only bundle
_TRIES: Final = 3
_SHOWN: Final = 5
_IGNORE: Final = "name what is no code in .pumiceignore"
_WHERE: Final = Position(option="code")


class MountedFile(Struct, frozen=True):
    """A file that is mounted as it is: in which part, by which key."""

    path: str
    part: int
    key: str
    mode: int


class CodeParts(Struct, frozen=True):
    sha256: str  # of the bundle; in read-only mode of what the Secrets have
    parts: Sequence[dict[str, bytes]]  # the data of each Secret, by key
    directory: str
    sizes: dict[str, int]  # of the files, by path
    mode: CodeMode = CodeMode.COPY
    files: Sequence[MountedFile] = ()  # in read-only mode
    left_out: Sequence[str] = ()  # because they look like credentials
    missing: Sequence[str] = ()  # what else is not in it, and why

    @property
    def id(self) -> str:
        return self.sha256[:ID_LENGTH]

    @property
    def size(self) -> int:
        return sum(len(data) for part in self.parts for data in part.values())

    @property
    def names(self) -> list[str]:
        return [f"{PREFIX}{self.id}-{number}" for number in range(len(self.parts))]

    def notes(self) -> list[str]:
        """Say what is sent."""
        count = len(self.sizes)
        packed = "" if self.mode is CodeMode.READ_ONLY else " compressed"
        files = f"{plural(count, 'file')} of {self.directory}"
        lines = [f"code {self.id}: {files}, {size_text(self.size)}{packed}"]
        if count > 1:
            lines.append(f"the largest: {_largest(self.sizes)}")
        if self.left_out:
            lines.append(f"left out, because they look like credentials: {some(self.left_out)}")
        return [*lines, *(f"not in the code: {each}" for each in self.missing)]


def make_parts(options: ClusterOptions, state: Path | None = None) -> CodeParts:
    """Read the code, but for the state directory of Pumice, if that is in it.

    Raises InvalidOption, also for code that is too large.
    """
    directory = options.code or Path()
    if options.code_limit > LARGEST_LIMIT:
        message = f"{size_text(options.code_limit)}: at most {size_text(LARGEST_LIMIT)}: etcd belongs to everybody"
        raise InvalidOption(
            message, "larger code belongs into an image, or onto a claim", Position(option="code-limit")
        )
    if is_never_shared(directory):
        raise InvalidOption(why_not(directory), ("name a directory of your own: ", Option("code", "PATH")), _WHERE)
    try:
        files, bundle = _read(directory, state)
    except OSError as error:
        about = (error.strerror or str(error)).lower()
        raise InvalidOption(f"{error.filename or directory}: {about}", where=_WHERE) from error
    if files.outside:
        message = f"links lead out of {directory}: {some(files.outside)}"
        raise InvalidOption(message, _IGNORE, _WHERE)
    if not files.files:
        raise InvalidOption(f"{directory}: has no code", ("name another directory: ", Option("code", "PATH")), _WHERE)
    if options.code_mode is CodeMode.READ_ONLY:
        parts = _mounted(files, bundle)
    else:
        starts = range(0, len(bundle.data), LARGEST_PART)
        packed = [{"part": bundle.data[start : start + LARGEST_PART]} for start in starts]
        sizes, left_out = dict(bundle.sizes), bundle.left_out
        parts = CodeParts(bundle.sha256, packed, files.directory, sizes, left_out=left_out, missing=files.missing)
    if parts.size > options.code_limit:
        message = f"{directory}: {size_text(parts.size)}, more than {size_text(options.code_limit)}"
        hint = (_IGNORE, ", or raise ", Option("code-limit"))
        raise InvalidOption(f"{message}; the largest files are {_largest(parts.sizes)}", hint, _WHERE)
    return parts


def _read(directory: Path, state: Path | None) -> tuple[CodeFiles, Bundle]:
    """Read all files as they are at one moment. Raises InvalidOption if they keep changing, and OSError."""
    changed: list[str] = []
    real, without = Path(os.path.realpath(directory)), ""
    if state is not None and Path(os.path.realpath(state)).is_relative_to(real):
        without = str(Path(os.path.realpath(state)).relative_to(real))
    for _ in range(_TRIES):
        files = select_files(str(directory), without)
        before = _stamps(files)
        bundle = make_bundle(files)
        changed = [path for path, stamp in _stamps(files).items() if stamp != before[path]]
        if not changed:
            return files, bundle
    raise InvalidOption(f"files change while they are read: {some(changed)}", _IGNORE, _WHERE)


def _stamps(files: CodeFiles) -> dict[str, tuple[int, int, int]]:
    found = {}
    for file in files.files:
        stat = Path(files.directory, file.path).lstat()
        found[file.path] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return found


def _mounted(files: CodeFiles, bundle: Bundle) -> CodeParts:
    """Return the files themselves, as many as fit into each part. Raises InvalidOption."""
    links = [file.path for file in files.files if file.link]
    large = [file.path for file in files.files if file.size > LARGEST_PART]
    for problem, paths in (("links cannot be mounted", links), ("files of more than 1 MB cannot be mounted", large)):
        if paths:
            raise InvalidOption(f"{problem}: {some(paths)}", _IGNORE, Position(option="code-mode"))
    parts: list[dict[str, bytes]] = [{}]
    mounted: list[MountedFile] = []
    total = 0
    with Directory(files.directory) as directory:
        for number, file in enumerate(files.files):
            content = directory.read(file.path, LARGEST_PART)
            if total + len(content) > LARGEST_PART:
                parts.append({})
                total = 0
            total += len(content)
            key = f"f{number}"
            parts[-1][key] = content
            mounted.append(MountedFile(file.path, len(parts) - 1, key, file.mode))
    index = msgspec.json.encode(mounted)
    if total + len(index) > LARGEST_PART:
        parts.append({})
    parts[-1][INDEX] = index
    return CodeParts(
        sha256_of(parts),
        parts,
        files.directory,
        dict(bundle.sizes),
        CodeMode.READ_ONLY,
        mounted,
        bundle.left_out,
        files.missing,
    )


def sha256_of(parts: Sequence[dict[str, bytes]]) -> str:
    """Return the hash of files: another one than that of a bundle of the same files."""
    found = hashlib.sha256()
    for part in parts:
        for key, content in sorted(part.items()):
            found.update(f"{key} {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()


def _largest(sizes: dict[str, int]) -> str:
    largest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    return ", ".join(f"{path} ({size_text(size)})" for path, size in largest)
