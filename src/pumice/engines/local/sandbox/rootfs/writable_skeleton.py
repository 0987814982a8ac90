"""Makes directories of the host, or of an image, writable for an ordinary user, who sees them as somebody else's.

A directory of an overlay takes owner and mode from the topmost layer that has it. So one more lower layer, which holds
only directories, all of them ours, lets a container write below /etc and /var at no cost for each container. Files
stay as they are: they can be replaced, not edited in place.
"""

from __future__ import annotations

import os
from collections import deque

# With how many levels of directories below. All of /usr would be too many, and few write there.
_OF_THE_HOST = {"etc": 99, "var": 99, "opt": 99, "srv": 99, "mnt": 2, "media": 2, "usr": 2, "usr/local": 99}
_OF_AN_IMAGE = {".": 99}
_MOST_DIRECTORIES = 4000


def make_skeleton(destination: str, image: str | None = None) -> None:
    """Breadth first, so that what is left out of a very large tree lies deep in it."""
    for top, depth in (_OF_THE_HOST if image is None else _OF_AN_IMAGE).items():
        waiting = deque([(top, 0)])
        made = 0
        while waiting and made < _MOST_DIRECTORIES:
            path, level = waiting.popleft()
            below = _copy(image or "", path, destination)
            made += 1
            if level < depth:
                waiting.extend((child, level + 1) for child in below)


def _copy(root: str, path: str, destination: str) -> list[str]:
    """One directory; the paths of those in it. What may not be read stays as it is: there is nothing to merge."""
    try:
        with os.scandir(f"{root}/{path}") as entries:
            below = [f"{path}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
        mode = os.stat(f"{root}/{path}").st_mode & 0o1777
    except OSError:
        return []
    copy = f"{destination}/{path}"
    os.makedirs(copy, exist_ok=True)
    os.chmod(copy, mode | 0o700)
    return below
