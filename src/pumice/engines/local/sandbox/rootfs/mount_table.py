"""What is mounted, as the kernel tells it: a path may hold any bytes, of which only a few are escaped."""

from __future__ import annotations

import os
import re

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def read_lines(path: str) -> list[str]:
    """Of a file of the kernel. Python's own lines end at characters, too, that stand in the names of directories."""
    with open(path, "rb") as file:
        return os.fsdecode(file.read()).removesuffix("\n").split("\n")


def mount_point(line: str) -> str:
    """Of a line of /proc/self/mountinfo."""
    path = os.fsencode(line.split(" ")[4])
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), path))
