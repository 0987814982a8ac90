"""Finds the path that a program misses: it exists on this machine, but pods do not see it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pumice.engines.local.host_access.access import is_within
from pumice.engines.local.host_access.consent import consent_facts
from pumice.engines.local.state.settings import Settings

_QUOTED: Final = re.compile(r"""(['"`])(/[^'"`\n]+)\1""")
_PLAIN: Final = re.compile(r"""(?<![\w.:/~@%-])/[^\s'"`:;,()\[\]<>|&]+""")
_MOST: Final = 10
_OF_POD: Final = tuple(map(Path, ("/dev", "/proc", "/run", "/sys")))


def misses_workdir(line: str, directory: str, workdir: Path) -> bool:
    """Whether a line of output names a file below the container's workingDir that this machine's working directory has.

    Most images have the program there, and the user has it in a checkout.
    """
    named = [match[2] for match in _QUOTED.finditer(line)] + [match[0].rstrip(".!?") for match in _PLAIN.finditer(line)]
    below = [Path(os.path.normpath(word)) for word in named[:_MOST]]
    return any(
        path != Path(directory) and path.is_relative_to(directory) and (workdir / path.relative_to(directory)).exists()
        for path in below
    )


def unshared_path(line: str, settings: Settings, inside: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return the first path in a line of output that exists here and is not shared; empty if there is none.

    `inside` are the paths of the container's volumes, where the same path means something else.
    """
    words = [match[2] for match in _QUOTED.finditer(line)] + [match[0].rstrip(".!?") for match in _PLAIN.finditer(line)]
    if not words:
        return ""
    facts = consent_facts(settings, environ)
    never = (*_OF_POD, *facts.private, *facts.credentials)
    seen = (
        *facts.visible,
        *facts.writable,
        *map(Path, inside),
        *(each.target for each in settings.mounts),
    )
    for word in words[:_MOST]:
        path = Path(os.path.normpath(word))
        real = Path(os.path.realpath(path))
        shared = is_within(real, (*never, *seen)) or is_within(path, seen)
        if len(path.parts) > len(Path("/x").parts) and os.path.lexists(path) and not shared:
            return str(path)
    return ""
