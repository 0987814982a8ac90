"""Which paths of this machine pods read and must not change, although they may write to a directory above them.

The Python that the user starts next, on this machine and with the user's rights, is the one that a pod would change.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pumice.engines.local.host_access.aliases import with_aliases
from pumice.engines.local.host_access.never_shared import NEVER_SHARED
from pumice.engines.local.state.settings import Settings

_PACKAGE = Path(__file__).resolve().parents[3]


def read_only_paths(settings: Settings) -> dict[Path, str]:
    """Return the real paths, and what each of them is, for the reason why a writable mount of it needs consent."""
    named = dict.fromkeys(settings.python, "the Python environment")
    named |= {Path(path): "the Python environment of Pumice" for path in (sys.prefix, sys.base_prefix)} | named
    named |= {_PACKAGE: "Pumice itself"}
    named |= {mount.path: "mounted read-only" for mount in settings.mounts if mount.read_only} | named
    if settings.workdir_read_only:
        named.setdefault(settings.workdir, "the working directory, which is read-only")
    found = with_aliases(named)
    return {real: named[path] for real, path in found.items() if str(real) not in NEVER_SHARED and real.exists()}


def replaceable_link(settings: Settings) -> Path | None:
    """Return a link in the path of the Python environment that pods could replace; no mount protects a link."""
    shared = [] if settings.workdir_read_only or not settings.share_workdir else [settings.workdir]
    shared += [mount.path for mount in settings.mounts if not mount.read_only]
    writable = [os.path.realpath(path) for path in shared]
    for path in settings.python:
        for link in (*reversed(path.parents), path):
            directory = Path(os.path.realpath(link.parent))
            if link.is_symlink() and any(directory.is_relative_to(each) for each in writable):
                return link
    return None
