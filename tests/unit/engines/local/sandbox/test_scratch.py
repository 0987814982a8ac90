from __future__ import annotations

import fcntl
import os
from pathlib import Path

from pumice.engines.local.sandbox import scratch


def test_a_locked_directory_is_kept_until_its_lock_is_released(tmp_path: Path) -> None:
    first, lock = scratch.claim(tmp_path / "scratch", "job")
    second, other = scratch.claim(tmp_path / "scratch", "job")
    assert first.is_dir()
    assert first != second
    os.close(lock)
    third, last = scratch.claim(tmp_path / "scratch", "job")
    assert (first.exists(), second.exists(), third.exists()) == (False, True, True)
    os.close(other)
    os.close(last)


def test_a_copy_of_the_lock_keeps_the_directory(tmp_path: Path) -> None:
    directory, lock = scratch.claim(tmp_path, "job")
    copy = os.dup(lock)
    os.close(lock)
    scratch.sweep(tmp_path)
    assert directory.exists()
    os.close(copy)
    scratch.sweep(tmp_path)
    assert not directory.exists()


def test_directories_of_mode_000_are_removed(tmp_path: Path) -> None:
    directory, lock = scratch.claim(tmp_path, "job")
    (directory / "work" / "work").mkdir(parents=True)
    (directory / "work" / "work").chmod(0)
    os.close(lock)
    scratch.sweep(tmp_path)
    assert not directory.exists()


def test_links_are_removed_but_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "link").symlink_to(outside)
    directory, lock = scratch.claim(tmp_path / "scratch", "job")
    (directory / "link").symlink_to(outside)
    os.close(lock)
    scratch.sweep(tmp_path / "scratch")
    assert (outside / "file").exists()


def test_directories_are_private(tmp_path: Path) -> None:
    directory, lock = scratch.claim(tmp_path / "scratch", "a" * 300)
    assert [oct(path.stat().st_mode & 0o777) for path in (directory, directory.parent)] == ["0o700", "0o700"]
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def test_a_directory_of_another_user_is_kept(tmp_path: Path) -> None:
    """Its lock cannot be opened; here, because it is a directory."""
    (tmp_path / "strange" / "lock").mkdir(parents=True)
    _, lock = scratch.claim(tmp_path, "job")
    os.close(lock)
    assert (tmp_path / "strange").is_dir()
