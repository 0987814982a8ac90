from __future__ import annotations

from pathlib import Path

import pytest

from pumice.store.code.recording import CodeChanges, changed_files, deadline, read_directory
from pumice.store.code.run_code import RunCode
from tests.unit.store.code.repositories import git, make_repository, write


def read(directory: Path) -> RunCode:
    return read_directory(str(directory), deadline(60))


def changes(code: RunCode) -> list[str]:
    found = changed_files(code, deadline(60))
    assert found.is_complete
    return [*found.files]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = make_repository(tmp_path / "top", {"train.py": "a", "model.py": "m", "lib/x.py": "x", ".gitignore": "*.log"})
    write(top, {"model.py": "changed", "new.py": "new"})
    return top


@pytest.mark.needs("git")
def test_new_and_ignored_files_are_no_change(top: Path) -> None:
    code = read(top)
    write(top, {"later.py": "", "x.log": ""})
    assert changes(code) == []


@pytest.mark.needs("git")
def test_names_what_changed_or_is_gone(top: Path) -> None:
    code = read(top)
    write(top, {"train.py": "b", "model.py": "other", "new.py": "other"})
    (top / "lib" / "x.py").unlink()
    assert changes(code) == ["lib/x.py", "model.py", "new.py", "train.py"]


@pytest.mark.needs("git")
def test_a_commit_of_the_same_contents_is_no_change(top: Path) -> None:
    code = read(top)
    git(top, "add", ".")
    git(top, "commit", "-m", "second")
    assert changes(code) == []


@pytest.mark.needs("git")
def test_another_commit_names_its_files(top: Path) -> None:
    git(top, "add", ".")
    git(top, "commit", "-m", "second")
    code, below = read(top), read(top / "lib")
    write(top, {"train.py": "b", "more.py": "", "lib/x.py": "y"})
    git(top, "add", ".")
    git(top, "commit", "-m", "third")
    assert changes(code) == ["lib/x.py", "train.py"]
    assert changes(below) == ["x.py"]
    git(top, "checkout", "HEAD^")
    assert changes(code) == []
    git(top, "checkout", "HEAD^")
    assert changes(code) == ["model.py", "new.py"]


@pytest.mark.needs("git")
def test_a_change_that_is_undone_is_a_change(top: Path) -> None:
    code = read(top)
    git(top, "checkout", "model.py")
    assert changes(code) == ["model.py"]


def test_without_a_repository(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a", "b.py": "b", "c.py": "c"})
    (tmp_path / "link").symlink_to("a.py")
    code = read(tmp_path)
    assert changes(code) == []
    write(tmp_path, {"a.py": "A", "new.py": ""})
    (tmp_path / "b.py").unlink()
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("c.py")
    assert changes(code) == ["a.py", "b.py", "link"]


@pytest.mark.needs("git")
def test_a_file_that_becomes_a_link_is_a_change(top: Path, tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere.py": "a"})
    code = read(top)
    (top / "train.py").unlink()
    (top / "train.py").symlink_to(tmp_path / "elsewhere.py")
    assert changes(code) == ["train.py"]


@pytest.mark.needs("git")
@pytest.mark.parametrize("calls", range(4))
def test_what_there_is_no_time_to_compare_is_said(top: Path, calls: int) -> None:
    code, count = read(top), iter(range(1000))
    write(top, {"train.py": "b"})
    found = changed_files(code, lambda: next(count) >= calls)
    assert not found.is_complete
    assert set(found.files) <= {"train.py"}


@pytest.mark.needs("git")
def test_what_was_not_recorded_in_time_is_no_change(top: Path) -> None:
    """`model.py` differed from the commit before, too."""
    code = read_directory(str(top), lambda: True)
    assert changed_files(code, deadline(60)) == CodeChanges((), is_complete=False)
