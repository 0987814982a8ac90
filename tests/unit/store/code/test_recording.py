from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.store.code import recording
from pumice.store.code.beneath import Directory
from pumice.store.code.recording import code_of, deadline, read_directory, record_code
from pumice.store.code.run_code import RunCode, read_code, write_code
from pumice.store.settings import Settings
from tests.unit.store.code.repositories import git, make_repository, write

MIB = 1 << 20


def read(directory: Path, *, keep: int = MIB) -> RunCode:
    return read_directory(str(directory), deadline(60), keep=keep)


def recorded(code: RunCode) -> dict[str, tuple[str, object]]:
    return {file.path: (file.change, file.patch if file.patch is not None else file.content) for file in code.files}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "a repository", {"train.py": "a\nb\n", "lib/x.py": "x\n", ".gitignore": "*.log\n"}
    )


@pytest.mark.needs("git")
def test_a_clean_repository_is_its_commit(top: Path) -> None:
    code = read(top)
    assert (code.commit, code.branch, code.files, code.missing) == (
        git(top, "rev-parse", "HEAD").strip(),
        "main",
        (),
        (),
    )
    assert str(code) == f"commit {code.commit[:12]} (main)"


@pytest.mark.needs("git")
@pytest.mark.parametrize("staged", [False, True])
def test_records_what_differs_from_the_commit(top: Path, staged: bool) -> None:
    write(top, {"train.py": "a\nB\n", "new.py": "new\n", "x.log": "ignored"})
    (top / "lib" / "x.py").unlink()
    (top / "link").symlink_to("new.py")
    if staged:
        git(top, "add", "-A")
    code = read(top)
    assert recorded(code) == {
        "lib/x.py": ("deleted", None),
        "link": ("untracked", None),
        "new.py": ("untracked", b"new\n"),
        "train.py": ("modified", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"),
    }
    assert str(code).endswith("and 4 changed files")


@pytest.mark.needs("git")
def test_a_mode_is_a_change(top: Path) -> None:
    (top / "train.py").chmod(0o755)
    assert [(file.path, file.mode) for file in read(top).files] == [("train.py", 0o755)]


@pytest.mark.needs("git")
def test_an_index_that_lies_hides_nothing(top: Path) -> None:
    """As a pod can write it: with the time and the size of the changed file, and the hash of the one in the commit."""
    write(top, {"train.py": "A\nb\n"})
    os.utime(top / "train.py", (1, 1))
    git(top, "update-index", "--assume-unchanged", "train.py")
    assert list(recorded(read(top))) == ["train.py"]
    git(top, "update-index", "--no-assume-unchanged", "train.py")
    git(top, "update-index", "--cacheinfo", f"100644,{git(top, 'hash-object', '-w', 'train.py').strip()},train.py")
    assert list(recorded(read(top))) == ["train.py"]


@pytest.mark.needs("git")
def test_of_many_files_the_index_says_which_changed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MOST_VERIFIED", 1)
    write(top, {"train.py": "longer than before\n"})
    assert list(recorded(read(top))) == ["train.py"]


@pytest.mark.needs("git")
def test_contents_are_kept_up_to_a_limit(top: Path) -> None:
    write(
        top, {"small.py": "x" * 10, "large.bin": "x" * (MIB + 1), "medium.py": "x" * 600_000, "other.py": "x" * 600_000}
    )
    assert {path: kept is not None for path, (_, kept) in recorded(read(top)).items()} == {
        "large.bin": False,
        "medium.py": True,
        "other.py": False,
        "small.py": True,
    }
    assert all(file.sha256 for file in read(top).files)


def test_without_a_repository_all_files_are_listed(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a", "sub/b.py": "b", ".env": "secret"})
    code = read(tmp_path)
    assert (code.commit, recorded(code)) == ("", {"a.py": ("untracked", b"a"), "sub/b.py": ("untracked", b"b")})
    assert code.credentials == (".env",)
    write(tmp_path, {"data": "x" * MIB})
    assert {kept for _, kept in recorded(read(tmp_path)).values()} == {None}
    assert all(file.sha256 for file in read(tmp_path).files)


@pytest.mark.needs("git")
def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init")
    write(tmp_path, {"a.py": "a"})
    git(tmp_path, "add", ".")
    code = read(tmp_path)
    assert (recorded(code), code.commit, code.missing) == ({"a.py": ("untracked", b"a")}, "", ())


@pytest.mark.needs("git")
def test_a_refused_repository_is_named_and_its_files_are_listed(top: Path) -> None:
    git(top, "config", "core.worktree", "/etc")
    code = read(top)
    assert ("train.py" in recorded(code), code.commit) == (True, "")
    assert code.notes == (f"the commit: {top}/.git names another working tree (core.worktree), which is refused",)
    assert code.missing == ()


def _after(calls: int) -> Callable[[], bool]:
    """Be late from so many questions on."""
    count = iter(range(1000))
    return lambda: next(count) >= calls


@pytest.mark.needs("git")
@pytest.mark.parametrize("calls", range(6))
def test_what_there_was_no_time_for_is_named(top: Path, calls: int) -> None:
    write(top, {"new.py": "new", "train.py": "changed", "other/new.py": "x"})
    code = read_directory(str(top), _after(calls))
    assert code.commit
    assert "the time was up" in " ".join(code.missing)
    assert code.was_late
    assert not any(file.change == "deleted" for file in code.files)


@pytest.mark.needs("git")
def test_what_was_listed_in_time_is_read(top: Path) -> None:
    """Of a repository that is too large, the upper levels are recorded."""
    write(top, {"new.py": "new", "train.py": "changed", "other/new.py": "x"})
    code = read_directory(str(top), deadline(60), _after(2))
    assert (recorded(code)["new.py"], recorded(code)["train.py"][0]) == (("untracked", b"new"), "modified")
    assert code.was_late
    assert "other/new.py" not in recorded(code)


@pytest.mark.needs("git")
def test_a_file_that_changes_while_it_is_read_is_marked(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def changing(directory: Directory, path: str, late: Callable[[], bool]) -> object:
        write(top, {"new.py": "another text"})
        return read_file(directory, path, late)

    read_file = recording.read_file
    write(top, {"new.py": "a text"})
    monkeypatch.setattr(recording, "read_file", changing)
    assert [(file.path, file.unsteady) for file in read(top).files] == [("new.py", True)]


def test_a_directory_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    settings = Settings(workdir=tmp_path / "gone", state=tmp_path)
    assert code_of(settings).missing == (f"{tmp_path}/gone cannot be read: no such file or directory",)
    hidden = Settings(workdir=tmp_path, share_workdir=False, state=tmp_path)
    assert code_of(hidden).missing == (f"pods do not see {tmp_path}",)


def test_the_record_is_private_and_read_back(tmp_path: Path) -> None:
    assert read_code(tmp_path) is None
    write(tmp_path / "work", {"a.py": "a"})
    code = read(tmp_path / "work")
    write_code(tmp_path, code)
    assert read_code(tmp_path) == code
    assert (tmp_path / "code.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "code.json").write_text("{")
    assert read_code(tmp_path) is None


def _link(top: Path) -> None:
    (top / "link").symlink_to(os.fsdecode(b"\xff"))


def _credential(top: Path) -> None:
    Path(os.fsdecode(os.fsencode(top / ".env") + b"\xff")).touch()


def _other_repository(top: Path) -> None:
    Path(os.fsdecode(os.fsencode(top / "sub") + b"\xff/.git")).mkdir(parents=True)


def _gone_file(top: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(top / "gone") + b"\xff"))
    path.touch()
    for command in (["add", "."], ["commit", "-m", "second"], ["rm", "-q", str(path)]):
        git(top, *command)


@pytest.mark.needs("git")
@pytest.mark.parametrize("plant", [_link, _credential, _other_repository, _gone_file])
def test_names_that_are_no_text_are_named(top: Path, tmp_path: Path, plant: Callable[[Path], None]) -> None:
    """JSON has no such names. A pod can make them."""
    plant(top)
    record_code(Settings(workdir=top, state=tmp_path), tmp_path)
    code = read_code(tmp_path)
    assert code is not None
    assert code.files == ()
    assert r"\udcff" in " ".join((*code.missing, *code.credentials))
