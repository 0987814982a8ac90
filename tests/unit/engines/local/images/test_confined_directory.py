from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.images.confined_directory import ConfinedDirectory, parts
from pumice.engines.local.images.errors import ImageError
from tests.unit.engines.local.images.archives import names_in, open_files


def test_directories_stay_open_only_on_the_way(tmp_path: Path) -> None:
    before = open_files()
    with ConfinedDirectory(tmp_path) as rooted:
        rooted.directory(("a", "b", "c"))
        assert open_files() == before + 4
        rooted.directory(("a", "x"))
        assert open_files() == before + 3
    assert open_files() == before
    assert (tmp_path / "a/b/c").is_dir()


def test_nothing_is_made_that_was_not_wanted(tmp_path: Path) -> None:
    with ConfinedDirectory(tmp_path) as rooted:
        with pytest.raises(FileNotFoundError):
            rooted.directory(("a",), make=False)
        assert rooted.status(("a", "b")) is None
        rooted.remove(("a", "b"))
    assert names_in(tmp_path) == []


def test_a_failed_step_leaves_the_way_intact(tmp_path: Path) -> None:
    (tmp_path / "s").symlink_to("/")
    with ConfinedDirectory(tmp_path) as rooted:
        rooted.directory(("a",))
        with pytest.raises(ImageError):
            rooted.directory(("s", "x"))
        assert os.fstat(rooted.directory(("a",))).st_ino == (tmp_path / "a").stat().st_ino


def test_removing_a_directory_that_is_open(tmp_path: Path) -> None:
    with ConfinedDirectory(tmp_path) as rooted:
        rooted.directory(("a", "b", "c"))
        rooted.remove(("a", "b"))
        assert rooted.status(("a", "b")) is None
        rooted.directory(("a", "b"))
    assert names_in(tmp_path / "a/b") == []


def test_other_errors_pass(tmp_path: Path) -> None:
    with ConfinedDirectory(tmp_path) as rooted, pytest.raises(OSError, match="too long"):
        rooted.directory(("x" * 300,))


def test_parts() -> None:
    assert parts("/a/./b//../c/") == ("a", "c")
    assert parts("./") == ()
    with pytest.raises(ImageError, match="no file can have"):
        parts("a\0b")
