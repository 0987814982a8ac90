from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.images.confined_directory import ConfinedDirectory, parts
from pumice.engines.local.images.errors import ImageError
from tests.unit.engines.local.images.archives import names_in, open_files


def test_only_directories_of_the_last_path_stay_open(tmp_path: Path) -> None:
    before = open_files()
    with ConfinedDirectory(tmp_path) as confined:
        confined.directory(("a", "b", "c"))
        assert open_files() == before + 4
        confined.directory(("a", "x"))
        assert open_files() == before + 3
    assert open_files() == before
    assert (tmp_path / "a/b/c").is_dir()


def test_without_make_nothing_is_created(tmp_path: Path) -> None:
    with ConfinedDirectory(tmp_path) as confined:
        with pytest.raises(FileNotFoundError):
            confined.directory(("a",), make=False)
        assert confined.status(("a", "b")) is None
        confined.remove(("a", "b"))
    assert names_in(tmp_path) == []


def test_after_an_error_other_paths_still_work(tmp_path: Path) -> None:
    (tmp_path / "s").symlink_to("/")
    with ConfinedDirectory(tmp_path) as confined:
        confined.directory(("a",))
        with pytest.raises(ImageError):
            confined.directory(("s", "x"))
        assert os.fstat(confined.directory(("a",))).st_ino == (tmp_path / "a").stat().st_ino


def test_remove_an_open_directory(tmp_path: Path) -> None:
    with ConfinedDirectory(tmp_path) as confined:
        confined.directory(("a", "b", "c"))
        confined.remove(("a", "b"))
        assert confined.status(("a", "b")) is None
        confined.directory(("a", "b"))
    assert names_in(tmp_path / "a/b") == []


def test_other_errors_are_raised(tmp_path: Path) -> None:
    with ConfinedDirectory(tmp_path) as confined, pytest.raises(OSError, match="too long"):
        confined.directory(("x" * 300,))


def test_parts() -> None:
    assert parts("/a/./b//../c/") == ("a", "c")
    assert parts("./") == ()
    with pytest.raises(ImageError, match="not a valid file name"):
        parts("a\0b")
