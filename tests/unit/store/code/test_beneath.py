from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.store.code.beneath import Directory, TooLargeError, is_git, is_inside, leads_out


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    top = tmp_path / "a tree"
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "file").write_text("text")
    (top / "out").symlink_to(tmp_path / "secret")
    (top / "link").symlink_to("sub/file")
    os.mkfifo(top / "pipe")
    return top


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("out/key", id="a directory that is a link"),
        pytest.param("link", id="a file that is a link"),
        pytest.param("../secret/key", id="upwards"),
        pytest.param("sub/../sub/file", id="up and down"),
        pytest.param("pipe", id="a pipe, which nobody writes to"),
        pytest.param("sub", id="a directory"),
    ],
)
def test_refuses_what_is_no_file_beneath(tree: Path, path: str) -> None:
    with Directory(str(tree)) as directory, pytest.raises(OSError, match=r"\w"):
        directory.read(path, 100)


def test_reads_files_beneath(tree: Path) -> None:
    with Directory(str(tree)) as directory:
        assert directory.read("sub/file", 4) == b"text"
        assert directory.read_if_there("sub/other", 4) is None
        assert directory.link("link") == "sub/file"
        with pytest.raises(TooLargeError):
            directory.read("sub/file", 3)


def test_a_path_without_links_has_none_on_the_way(tree: Path) -> None:
    with pytest.raises(NotADirectoryError):
        Directory(str(tree / "out"), follow=False)
    Directory(str(tree / "sub"), follow=False).close()


def test_a_deep_tree_does_not_use_up_descriptors(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / "file").write_text(str(number))
    with Directory(str(tmp_path)) as directory:
        before = len([*Path("/proc/self/fd").iterdir()])
        assert [directory.read(f"d{number}/file", 9) for number in range(200)] == [b"%d" % n for n in range(200)]
        assert len([*Path("/proc/self/fd").iterdir()]) <= before + 64


@pytest.mark.parametrize(
    "path", ["", "/etc", "a//b", "../a", "a/..", "./a", ".git/config", "a/.GIT/x", "git~1/x", "a\0b"]
)
def test_a_path_that_is_not_inside(path: str) -> None:
    assert not is_inside(path)


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        ("link", "file", False),
        ("a/b/link", "../../file", False),
        ("a/link", "../..", True),
        ("link", "/etc/passwd", True),
        ("link", ".git/hooks", True),
        ("a/link", "x/../../../y", True),
    ],
)
def test_links_that_lead_out(path: str, target: str, *, out: bool) -> None:
    assert leads_out(path, target) is out


def test_names_that_mean_git() -> None:
    assert [name for name in (".git", ".Git", ".git. ", "git~1", ".gitignore", "git") if is_git(name)] == [
        ".git",
        ".Git",
        ".git. ",
        "git~1",
    ]
