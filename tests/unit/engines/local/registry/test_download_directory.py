from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.registry.pull import download_directory
from tests.patience import PATIENCE

DIGEST = "sha256:" + "a" * 64
WEEKS = 8 * 24 * 3600


def _fail_after_writing(path: Path) -> None:
    path.write_text("x")
    raise RuntimeError


def test_it_outlives_a_failure_and_not_a_success(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), download_directory(tmp_path, DIGEST, print) as directory:
        _fail_after_writing(directory / "part")
    with download_directory(tmp_path, DIGEST, print) as directory:
        assert (directory / "part").read_text() == "x"
        assert directory.parent.stat().st_mode & 0o777 == 0o700
    assert not directory.exists()


def test_old_leftovers_are_removed(tmp_path: Path) -> None:
    downloads = tmp_path / ".downloads"
    old, held, new = (downloads / name for name in ("old", "held", "new"))
    for path in (old, held, new):
        path.mkdir(parents=True)
        now = path.stat().st_mtime
    with download_directory(tmp_path, "sha256:held", print):
        for path in (old, held):
            os.utime(path, (now - WEEKS, now - WEEKS))
        with download_directory(tmp_path, DIGEST, print):
            assert not old.exists()
            assert held.exists()
            assert new.exists()


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    waits, order = threading.Event(), []

    def second() -> None:
        with download_directory(tmp_path, DIGEST, lambda _: waits.set()) as directory:
            order.append(("second", directory.is_dir()))

    with download_directory(tmp_path, DIGEST, print):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(PATIENCE)
        order.append(("first", True))
    thread.join(60)
    assert order == [("first", True), ("second", True)]


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ImageError, match="not a directory"), download_directory(tmp_path / "file", DIGEST, print):
        pass
