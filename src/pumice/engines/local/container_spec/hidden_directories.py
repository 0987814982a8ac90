"""Which directories of the host no container sees: homes, and the state of Pumice with the secrets of other jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_HOMES: Final = ("/home", "/root")
# Some accounts live where the programs are.
_SYSTEM: Final = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "usr")


def hidden_directories(home: Path, state: Path, *, host_is_image: bool) -> tuple[str, ...]:
    """An image has directories of its own, so that of the host's only the state could be seen, in a mount above it."""
    if not host_is_image:
        return (str(state),)
    own = () if len(home.parts) <= 1 or home.parts[1] in _SYSTEM else (str(home),)
    return tuple(dict.fromkeys((*_HOMES, *own, str(state))))
