"""How much of the disk a job uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.state.disk_use import DiskUse, measure, size_text


def test_measure(tmp_path: Path) -> None:
    (tmp_path / "claim" / "deep").mkdir(parents=True)
    (tmp_path / "claim" / "deep" / "file").write_bytes(b"x" * (1 << 20))
    (tmp_path / "claim" / "link").symlink_to("/usr")
    used = measure([tmp_path / "claim"], tmp_path / "none", [])
    assert 1 << 20 <= used.claims < 2 << 20
    assert (used.volumes, used.layers, used.total) == (0, 0, used.claims)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        pytest.param(512, "0.5 KiB", id="small"),
        pytest.param(3 << 20, "3.0 MiB", id="MiB"),
        pytest.param(3 << 50, "3072.0 TiB", id="huge"),
    ],
)
def test_size_text(size: int, text: str) -> None:
    assert size_text(size) == text


def test_small_sizes_are_not_shown() -> None:
    assert str(DiskUse(10, 2 << 20, 3 << 30)) == "emptyDir 2.0 MiB, layers 3.0 GiB"
    assert str(DiskUse(10)) == ""
