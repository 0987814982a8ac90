"""The other paths of a path: file systems that are mounted at several directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.host_access.read_only import find_aliases, read_mounts, with_aliases

TABLE = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 254:1 / /home rw shared:2 - ext4 /dev/vdb rw
23 21 254:1 / /export/home rw shared:2 - ext4 /dev/vdb rw
24 21 254:0 /srv/big\\040data /mnt rw - ext4 /dev/vda rw
25 21 0:30 / /tmp rw - tmpfs tmpfs rw
26 22 254:1 /me/project /place rw - ext4 /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/home/me/.ssh", ["/export/home/me/.ssh"], id="a file system at two directories"),
        pytest.param(
            "/home/me/project/.venv", ["/export/home/me/project/.venv", "/place/.venv"], id="a directory of its own"
        ),
        pytest.param("/place/.venv", ["/home/me/project/.venv", "/export/home/me/project/.venv"], id="the other way"),
        pytest.param("/srv/big data/set", ["/mnt/set"], id="a part, with an escaped name"),
        pytest.param("/srv/other", [], id="no other path"),
        pytest.param("/tmp/x", [], id="one mount"),
        pytest.param("/", [], id="the root"),
        pytest.param("/mnt", ["/srv/big data"], id="a mount point"),
        pytest.param("/home", ["/export/home"], id="the root of a file system"),
        pytest.param("/homework", [], id="a name that begins with a mount point"),
    ],
)
def test_aliases(path: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(TABLE)
    assert find_aliases(Path(path), read_mounts(tmp_path / "mountinfo")) == [Path(each) for each in expected]


def test_no_table_no_aliases(tmp_path: Path) -> None:
    assert find_aliases(Path("/home/me"), read_mounts(tmp_path / "none")) == []


def test_paths_are_real_and_first(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert next(iter(with_aliases([tmp_path / "link"]))) == tmp_path
