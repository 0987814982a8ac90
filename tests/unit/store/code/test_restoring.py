from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pumice.store.code.bundles import unpack
from pumice.store.code.recording import deadline, read_directory
from pumice.store.code.restoring import restore
from pumice.store.code.run_code import RunCode
from pumice.store.run_errors import IncompleteCodeError
from tests.unit.store.code.repositories import contents, git, make_repository, write

LONG = "".join(f"line {number}\n" for number in range(500))


def read(directory: Path) -> RunCode:
    return read_directory(str(directory), deadline(60))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = make_repository(
        tmp_path / "top",
        {"train.py": LONG, "lib/x.py": "x", "gone.py": "", ".gitignore": "*.log\n", ".gitattributes": "*.py text"},
    )
    (top / "link").symlink_to("train.py")
    (top / "lib" / "run.sh").touch(0o755)
    git(top, "add", ".")
    git(top, "commit", "-m", "second")
    write(top, {"train.py": LONG.replace("line 77\n", "LINE 77\n") + "no end", "new.py": "new"})
    (top / "gone.py").unlink()
    return top


@pytest.mark.needs("git")
@pytest.mark.parametrize("packed", [False, True])
def test_restores_what_was_there(top: Path, tmp_path: Path, packed: bool) -> None:
    write(top, {"x.log": "ignored"})
    code = read(top)
    expected = {path: text for path, text in contents(top).items() if path != "x.log"}
    git(top, "add", ".")
    git(top, "commit", "-m", "later")
    write(top, {"train.py": "later"})
    if packed:
        git(top, "gc")
    unpack(restore(code), tmp_path / "new")
    assert contents(tmp_path / "new") == expected
    assert (tmp_path / "new" / "lib" / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.needs("git")
def test_restores_a_directory_of_a_repository(top: Path) -> None:
    write(top, {"lib/new.py": "new"})
    assert restore(read(top / "lib")).sizes == {"new.py": 3, "run.sh": 0, "x.py": 1}


def test_restores_without_a_repository(tmp_path: Path) -> None:
    write(tmp_path / "work", {"a.py": "a", "sub/b.py": "b"})
    code = read(tmp_path / "work")
    shutil.rmtree(tmp_path / "work")
    unpack(restore(code), tmp_path / "new")
    assert contents(tmp_path / "new") == {"a.py": "a", "sub/b.py": "b"}


@pytest.mark.needs("git")
@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], ids=["no commit", "hashes that are not read"])
def test_restores_what_is_all_recorded_though_there_is_no_commit(tmp_path: Path, options: tuple[str, ...]) -> None:
    work = tmp_path / "work"
    write(work, {"a.py": "a", "sub/b.py": "b"})
    git(work, "init", *options)
    git(work, "add", ".")
    if options:
        git(work, "commit", "-m", "first")
    unpack(restore(read(work)), tmp_path / "new")
    assert contents(tmp_path / "new") == {"a.py": "a", "sub/b.py": "b"}


@pytest.mark.needs("git")
def test_what_is_not_known_of_a_refused_repository_explains_what_is_missing(top: Path) -> None:
    git(top, "config", "core.worktree", "/etc")
    with pytest.raises(IncompleteCodeError) as error:
        restore(_large(top))
    first, second, third, *_ = str(error.value).splitlines()
    assert first == "the code is not complete; missing:"
    assert "names another working tree (core.worktree), which is refused" in second
    assert third.endswith(")")


def _large(top: Path) -> RunCode:
    write(top, {"large.bin": "x" * 2_000_000})
    return read(top)


def _no_repository(top: Path) -> RunCode:
    code = read(top)
    shutil.rmtree(top / ".git")
    return code


def _no_commit(top: Path) -> RunCode:
    code = read(top)
    for path in (top / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    return code


def _another_repository(top: Path) -> RunCode:
    code = _no_repository(top)
    (top / ".git").symlink_to(make_repository(top.parent / "other", {}) / ".git")
    return code


def _link_out(top: Path) -> RunCode:
    (top / "out").symlink_to("/etc/passwd")
    return read(top)


def _committed_link_out(top: Path) -> RunCode:
    (top / "out").symlink_to("../../secret")
    git(top, "add", ".")
    git(top, "commit", "-m", "link")
    return read(top)


def _submodule(top: Path) -> RunCode:
    git(top, "submodule", "add", str(make_repository(top.parent / "inner", {"y.py": ""})), "module")
    return read(top)


def _changing(top: Path) -> RunCode:
    code = read(top)
    return replace(code, files=tuple(replace(file, unsteady=file.path == "new.py") for file in code.files))


def _tampered(top: Path) -> RunCode:
    code = read(top)
    return replace(
        code, files=tuple(replace(file, patch=file.patch and file.patch.replace("LINE", "EVIL")) for file in code.files)
    )


def _path_out(top: Path) -> RunCode:
    code = read(top)
    return replace(
        code, files=tuple(replace(file, path="../evil.py") if file.path == "new.py" else file for file in code.files)
    )


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("prepare", "named"),
    [
        (_large, "large.bin: 1.9 MiB, only its hash is recorded"),
        (_no_repository, "there is no repository any more"),
        (_no_commit, "is not in the repository"),
        (_another_repository, "is a link, which is not followed"),
        (_link_out, "out: a link that leads out of the directory is refused"),
        (_committed_link_out, "out: a link that leads out of the directory is refused"),
        (_submodule, "module is a submodule"),
        (_changing, "new.py: it changed while it was recorded"),
        (_tampered, "train.py: what is recorded of it does not fit the commit"),
        (_path_out, "such a path is refused"),
    ],
)
def test_what_is_missing_is_named(top: Path, prepare: Callable[[Path], RunCode], named: str) -> None:
    code = prepare(top)
    with pytest.raises(IncompleteCodeError) as error:
        restore(code)
    assert named in str(error.value)
    assert error.value.exit_code == 2


def test_of_thousands_of_files_some_are_named(tmp_path: Path) -> None:
    write(tmp_path, {f"{number:03}.py": f"{number}" for number in range(100)})
    with pytest.raises(IncompleteCodeError) as refused:
        restore(read_directory(str(tmp_path), deadline(60), keep=10))
    lines = str(refused.value).splitlines()
    assert (len(lines), lines[1][:13], lines[-1]) == (52, "  000.py: 1 B", "  and 50 more")
