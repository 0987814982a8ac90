from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.images.confined_directory import read_inside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "passwd").write_text("of the host")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/file").write_bytes(b"inside\xff")
    (root / "passwd").write_text("of the image")
    links = {
        "etc/relative": "file",
        "etc/absolute": "/etc/file",
        "etc/parent": "../../../passwd",
        "etc/outside": str(tmp_path / "passwd"),
        "etc/loop": "loop",
        "lib": "/etc",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "etc/pipe")
    return root


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("etc/file", "inside\udcff"),
        ("/etc/./file", "inside\udcff"),
        ("etc/relative", "inside\udcff"),
        ("etc/absolute", "inside\udcff"),
        ("lib/relative", "inside\udcff"),
        ("etc/parent", "of the image"),
        ("../passwd", "of the image"),
        ("etc/outside", ""),
        ("etc/loop", ""),
        ("etc/pipe", ""),
        ("etc", ""),
        ("etc/none", ""),
    ],
)
def test_read_inside(root: Path, name: str, text: str) -> None:
    assert read_inside(root, name) == text


def test_at_most_a_megabyte_is_read(root: Path) -> None:
    (root / "big").write_bytes(bytes(3 << 20))
    assert len(read_inside(root, "big")) == 1 << 20
