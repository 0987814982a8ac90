"""Reads a small file of an image from outside, and resolves links within the image.

Otherwise `etc/passwd -> /etc/shadow` would read the host's file, and a named pipe would block.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40
_LARGEST: Final = 1 << 20


def read_inside(root: Path, name: str) -> str:
    """Return the text of a file, at most its first megabyte; empty if there is no such file."""
    try:
        path = _resolve(root, name)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    data = b""
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            while part := os.read(descriptor, _LARGEST - len(data)):
                data += part
    finally:
        os.close(descriptor)
    return data.decode("utf-8", "surrogateescape")


def _resolve(root: Path, name: str) -> Path:
    done: list[str] = []
    todo = name.split("/")[::-1]
    links = 0
    while todo:
        step = todo.pop()
        if step == "..":
            done = done[:-1]
        elif step not in {"", "."}:
            here = root.joinpath(*done, step)
            if here.is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(f"{name}: too many links")
                target = str(here.readlink())
                todo += target.split("/")[::-1]
                done = [] if target.startswith("/") else done
            else:
                done.append(step)
    return root.joinpath(*done)
