"""Finds the path that a program misses: it exists on this machine, but pods do not see it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pumice.engines.local.host_access.access import is_within
from pumice.engines.local.host_access.consent import consent_facts
from pumice.store.settings import Settings

_QUOTED: Final = re.compile(r"""(['"`])(/[^'"`\n]+)\1""")
_PLAIN: Final = re.compile(r"""(?<![\w.:/~@%-])/[^\s'"`:;,()\[\]<>|&]+""")
_MOST: Final = 10
_OF_POD: Final = tuple(map(Path, ("/dev", "/proc", "/run", "/sys")))


def directory_with_missed_file(line: str, cwd: str, directories: Iterable[Path]) -> Path | None:
    """Return the first directory that has the file which a line of output names below the container's own directory.

    The image of a cluster has the program there; on this machine it is in a checkout, or beside the Job file.
    """
    below = [path.relative_to(cwd) for path in _named_paths(line) if path.is_relative_to(cwd) and path != Path(cwd)]
    return next((each for each in directories if any((each / path).exists() for path in below)), None)


def _named_paths(line: str) -> list[Path]:
    """The absolute paths in a line of output. One in quotes may have spaces."""
    words = [match[2] for match in _QUOTED.finditer(line)]
    words += [match[0].rstrip(".!?") for match in _PLAIN.finditer(_QUOTED.sub("", line))]
    return [Path("/", os.path.normpath(word).lstrip("/")) for word in words[:_MOST]]


def unshared_path(line: str, settings: Settings, inside: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return the first path in a line of output that exists here and is not shared; empty if there is none.

    `inside` are the paths of the container's volumes, where the same path means something else.
    """
    paths = _named_paths(line)
    if not paths:
        return ""
    facts = consent_facts(settings, environ)
    never = (*_OF_POD, *facts.private, *facts.credentials)
    seen = (
        *facts.visible,
        *facts.writable,
        *map(Path, inside),
        *(each.target for each in settings.mounts),
    )
    for path in paths:
        real = Path(os.path.realpath(path))
        shared = is_within(real, (*never, *seen)) or is_within(path, seen)
        if len(path.parts) > len(Path("/x").parts) and os.path.lexists(path) and not shared:
            return str(path)
    return ""
