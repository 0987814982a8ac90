"""Remembers which paths the user has allowed: by project, real path, and whether it may be written to.

In the state directory, which no pod sees. A project's own files could be changed by its pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from pumice.store.files.atomic_files import replace_file
from pumice.store.settings import HostAccess

_FILE: Final = "consent.json"


class _Grant(msgspec.Struct, frozen=True):
    project: str
    path: str
    writable: bool


def is_granted(access: HostAccess, project: Path, state: Path) -> bool:
    """Consent to write includes reading."""
    grants = _read(state)
    wanted = {True} if not access.read_only else {True, False}
    return any(_Grant(str(project), str(access.real), writable) in grants for writable in wanted)


def remember(accesses: Iterable[HostAccess], project: Path, state: Path) -> None:
    """Raises OSError if the state directory cannot be written to."""
    grants = _read(state) | {_Grant(str(project), str(each.real), not each.read_only) for each in accesses}
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = msgspec.json.encode(sorted(grants, key=lambda each: (each.project, each.path)))
    replace_file(state / _FILE, content, sync=False)


def _read(state: Path) -> set[_Grant]:
    """Nothing is granted where the file is missing or broken."""
    try:
        return set(msgspec.json.decode((state / _FILE).read_bytes(), type=list[_Grant]))
    except (OSError, msgspec.DecodeError):
        return set()
