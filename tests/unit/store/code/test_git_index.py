from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from pumice.store.code.git_index import GitError, IndexTrees, read_index
from tests.unit.store.code.repositories import git, make_repository, write

FILES = {f"{folder}{name}": name for folder in ("", "a b/", "deep/er/") for name in ("x.py", "y.py", "é.txt", "n" * 90)}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    make_repository(tmp_path / "repository", FILES)
    (tmp_path / "repository" / "link").symlink_to("x.py")
    git(tmp_path / "repository", "add", ".")
    return tmp_path / "repository"


@pytest.mark.needs("git")
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_reads_the_entries_of_each_version(repository: Path, version: str) -> None:
    git(repository, "update-index", "--index-version", version)
    if version == "3":
        write(repository, {"later.py": ""})
        git(repository, "add", "-N", "later.py")
    entries = read_index((repository / ".git" / "index").read_bytes())
    shown = [f"{entry.mode:o} {entry.object_id.hex()} {entry.stage}\t{entry.path}" for entry in entries]
    assert shown == git(repository, "ls-files", "-s", "-z").split("\0")[:-1]
    found = {entry.path: os.lstat(repository / entry.path) for entry in entries if not entry.intended}
    assert {entry.path: entry.size for entry in entries if not entry.intended} == {
        path: each.st_size for path, each in found.items()
    }
    assert [entry.path for entry in entries if entry.intended] == (["later.py"] if version == "3" else [])


@pytest.mark.needs("git")
def test_computes_the_tree_that_git_would_write(repository: Path) -> None:
    trees = IndexTrees(read_index((repository / ".git" / "index").read_bytes()))
    assert trees.root.hex() == git(repository, "write-tree").strip()


@pytest.mark.needs("git")
@pytest.mark.parametrize("version", ["2", "4"])
def test_a_damaged_index_is_an_error(repository: Path, version: str) -> None:
    git(repository, "update-index", "--index-version", version)
    content = (repository / ".git" / "index").read_bytes()
    end = content.rindex(b"x.py")
    for length in range(0, end, 7):
        with pytest.raises(GitError):
            read_index(content[:length])


@pytest.mark.needs("git")
def test_a_path_that_leads_out_is_an_error(repository: Path) -> None:
    content = (repository / ".git" / "index").read_bytes().replace(b"deep/er/x.py", b"../../../x.py"[:12])
    with pytest.raises(GitError, match="outside"):
        read_index(content)


@pytest.mark.needs("git")
def test_a_split_index_is_named(repository: Path) -> None:
    git(repository, "update-index", "--split-index")
    with pytest.raises(GitError, match="split"):
        read_index((repository / ".git" / "index").read_bytes())


def _entry(removed: int, path: bytes) -> bytes:
    """An entry of version 4, whose path has the one before but for `removed` bytes of its end."""
    return struct.pack(">2L2L2L4L20sH", *[0] * 6, 0o100644, 0, 0, 0, b"\1" * 20, 0) + bytes([removed]) + path + b"\0"


def _index(count: int, *entries: bytes) -> bytes:
    return struct.pack(">4sLL", b"DIRC", 4, count) + b"".join(entries) + bytes(20)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(_index(2, _entry(0, b"x" * 4000), _entry(0, b"/" + b"y" * 4000)), "too long", id="one path"),
        pytest.param(_index(100_000, _entry(0, b"x" * 4000), *[_entry(1, b"x")] * 99_999), "too long", id="all paths"),
        pytest.param(_index(1_000_001), "at most 1000000", id="files"),
    ],
)
def test_what_unfolds_to_too_much_is_refused(content: bytes, message: str) -> None:
    """Paths share their beginnings, so that a small file may have any amount of them."""
    with pytest.raises(GitError, match=message):
        read_index(content)
