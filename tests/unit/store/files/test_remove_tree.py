from __future__ import annotations

import os
from pathlib import Path

from pumice.store.files.remove_tree import remove_tree


def test_closed_directories_and_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    top = tmp_path / "top"
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/b/c/f").touch(0o000)
    (top / "link").symlink_to(outside)
    (top / "a/.removing-0").mkdir()
    (top / ".removing-0").mkdir()
    (top / "a/b/c").chmod(0)
    (top / "a/b").chmod(0o500)
    (top / "a").chmod(0)
    remove_tree(top)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").is_dir()


def test_links_files_and_missing_paths(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("d")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "d").is_dir()
    (tmp_path / "f").touch()
    remove_tree(tmp_path / "f")
    remove_tree(tmp_path / "nothing")
    remove_tree(tmp_path / "nothing/below")
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_trees_deeper_than_the_longest_path(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("directory", dir_fd=here)
        below = os.open("directory", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(top)
    assert not top.exists()
