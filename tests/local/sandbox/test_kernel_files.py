from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.sandbox import kernel_files
from tests.local.sandbox.boxes import box, run

NAMES = [
    pytest.param("two words", id="space"),
    pytest.param("one\nnext", id="line break"),
    pytest.param("one\rnext", id="carriage return"),
    pytest.param("back\\slash\\040", id="backslash"),
    pytest.param("训练", id="not Latin"),
    pytest.param("next\x85line\u2028", id="line breaks of Unicode"),
    pytest.param(os.fsdecode(b"caf\xe9"), id="not UTF-8"),
]


@pytest.mark.parametrize("name", NAMES)
def test_mount_points_are_decoded(name: str, tmp_path: Path) -> None:
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in name)
    file = tmp_path / "mountinfo"
    lines = ["1 0 0:1 / / rw - ext4 /dev/a rw", f"2 1 0:2 / /mnt/{escaped} rw - tmpfs  rw"]
    file.write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))
    assert [kernel_files.mount_point(line) for line in kernel_files.read_lines(str(file))] == ["/", f"/mnt/{name}"]


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", NAMES)
def test_a_sandbox_in_a_directory_with_an_unusual_name(name: str, tmp_path: Path) -> None:
    """The directory is a mount point in the sandbox, so job-init reads its name."""

    async def story() -> None:
        async with box(tmp_path / name) as made:
            await made.pod("a")
            assert await made.shell("a", "echo up") == (0, "up\n")

    run(story())
