from __future__ import annotations

import fcntl
import os
from pathlib import Path

from pumice.engines.local.sandbox import scratch


def test_a_claimed_directory_is_left_alone_until_its_lock_is_dropped(tmp_path: Path) -> None:
    first, lock = scratch.claim(tmp_path / "stage", "job")
    second, other = scratch.claim(tmp_path / "stage", "job")
    assert first.is_dir()
    assert first != second
    os.close(lock)
    third, last = scratch.claim(tmp_path / "stage", "job")
    assert (first.exists(), second.exists(), third.exists()) == (False, True, True)
    os.close(other)
    os.close(last)


def test_a_copy_of_the_lock_in_another_process_holds_it_too(tmp_path: Path) -> None:
    directory, lock = scratch.claim(tmp_path, "job")
    copy = os.dup(lock)
    os.close(lock)
    scratch.sweep(tmp_path)
    assert directory.exists()
    os.close(copy)
    scratch.sweep(tmp_path)
    assert not directory.exists()


def test_what_overlays_leave_behind_can_be_removed(tmp_path: Path) -> None:
    directory, lock = scratch.claim(tmp_path, "job")
    (directory / "work" / "work").mkdir(parents=True)
    (directory / "work" / "work").chmod(0)
    os.close(lock)
    scratch.sweep(tmp_path)
    assert not directory.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "link").symlink_to(outside)
    directory, lock = scratch.claim(tmp_path / "stage", "job")
    (directory / "link").symlink_to(outside)
    os.close(lock)
    scratch.sweep(tmp_path / "stage")
    assert (outside / "file").exists()


def test_nobody_else_sees_it(tmp_path: Path) -> None:
    directory, lock = scratch.claim(tmp_path / "stage", "a" * 300)
    assert [oct(path.stat().st_mode & 0o777) for path in (directory, directory.parent)] == ["0o700", "0o700"]
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def test_what_cannot_be_looked_at_is_left_alone(tmp_path: Path) -> None:
    """As what another user has left: here, because a lock is no file."""
    (tmp_path / "strange" / "lock").mkdir(parents=True)
    _, lock = scratch.claim(tmp_path, "job")
    os.close(lock)
    assert (tmp_path / "strange").is_dir()
