from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.sandbox import kernel_files
from tests.local.sandbox.boxes import box, run

STRANGE = [
    pytest.param("two words", id="blank"),
    pytest.param("one\nnext", id="line break"),
    pytest.param("one\rnext", id="carriage return"),
    pytest.param("back\\slash\\040", id="backslash"),
    pytest.param("训练", id="letters of another script"),
    pytest.param("next\x85line\u2028", id="what Python takes for a line break"),
    pytest.param(os.fsdecode(b"caf\xe9"), id="not UTF-8"),
]


@pytest.mark.parametrize("name", STRANGE)
def test_read_as_the_kernel_writes_it(name: str, tmp_path: Path) -> None:
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in name)
    file = tmp_path / "mountinfo"
    lines = ["1 0 0:1 / / rw - ext4 /dev/a rw", f"2 1 0:2 / /mnt/{escaped} rw - tmpfs  rw"]
    file.write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))
    assert [kernel_files.mount_point(line) for line in kernel_files.read_lines(str(file))] == ["/", f"/mnt/{name}"]


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", STRANGE)
def test_sandbox_in_a_place_of_a_strange_name(name: str, tmp_path: Path) -> None:
    """The place is a mount of its own in there, so that its name is among those that are read."""

    async def story() -> None:
        async with box(tmp_path / name) as made:
            await made.pod("a")
            assert await made.shell("a", "echo up") == (0, "up\n")

    run(story())
