"""How much of the disk a job uses."""

from __future__ import annotations

from pathlib import Path

from pumice.store.disk_use import DiskUse, measure


def test_measure(tmp_path: Path) -> None:
    (tmp_path / "claim" / "deep").mkdir(parents=True)
    (tmp_path / "claim" / "deep" / "file").write_bytes(b"x" * (1 << 20))
    (tmp_path / "claim" / "link").symlink_to("/usr")
    used = measure([tmp_path / "claim"], tmp_path / "none", [])
    assert 1 << 20 <= used.claims < 2 << 20
    assert (used.volumes, used.layers, used.total) == (0, 0, used.claims)


def test_more_than_a_limit_is_said() -> None:
    used = DiskUse(3 << 20)
    assert used.excess(1 << 20) == "uses more of the disk than 1 MiB (disk-limit): claims 3 MiB"
    assert (used.excess(3 << 20), used.excess(None)) == ("", "")


def test_small_sizes_are_not_shown() -> None:
    assert str(DiskUse(10, 2 << 20, 3 << 30)) == "emptyDir 2 MiB, layers 3 GiB"
    assert str(DiskUse(10)) == ""
