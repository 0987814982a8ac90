"""Which paths of this machine pods read and must not change, although they may write to a directory above them.

The Python that the user starts next, on this machine and with the user's rights, is the one that a pod would change.

The same files may be at several paths, because a file system may be mounted at several directories. Links are resolved
elsewhere. A bind mount is none: a home may also be at `/export/home`, where a rule by path would not find it.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.sandbox.kernel_files import mount_point, mounted_root
from pumice.store.never_shared import NEVER_SHARED
from pumice.store.settings import Settings

_PACKAGE: Final = Path(__file__).resolve().parents[3]
_MOST_LINKS: Final = 40
_MOUNT_TABLE: Final = Path("/proc/self/mountinfo")


class MountedTree(Struct, frozen=True):
    """A directory `root` of a file system, and where it is mounted."""

    device: str
    root: str
    point: str


def read_mounts(table: Path = _MOUNT_TABLE) -> list[MountedTree]:
    """Return the mounts of this process; none where /proc does not list them."""
    try:
        lines = table.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return []
    return [MountedTree(line.split(" ")[2], mounted_root(line), mount_point(line)) for line in lines if line]


def find_aliases(real: Path, mounts: Sequence[MountedTree]) -> list[Path]:
    """Return the other paths of a real path."""
    # As text: there may be hundreds of mounts, and paths as objects would take a tenth of the start of a run.
    path = str(real)
    holders = [each for each in mounts if is_below(path, each.point)]
    if not holders:
        return []
    holder = max(holders, key=lambda each: len(each.point))
    within = _moved(path, holder.point, holder.root)
    aliases = (
        _moved(within, each.root, each.point)
        for each in mounts
        if each.device == holder.device and is_below(within, each.root)
    )
    return [Path(alias) for alias in dict.fromkeys(aliases) if alias != path]


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is that of a directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _moved(path: str, source: str, destination: str) -> str:
    """Return a path below `source` as it is below `destination`."""
    return (destination.rstrip("/") + path[len(source.rstrip("/")) :]).rstrip("/") or "/"


def with_aliases(paths: Iterable[Path]) -> dict[Path, Path]:
    """Return the real paths of these, and their other paths, as far as the same file is there: each with its path."""
    mounts, found = read_mounts(), dict[Path, Path]()
    for path in paths:
        real = Path(os.path.realpath(path))
        found.setdefault(real, path)
        for alias in find_aliases(real, mounts):
            # A further mount may cover it.
            with suppress(OSError):
                if alias.samefile(real):
                    found.setdefault(alias, path)
    return found


def read_only_paths(settings: Settings) -> dict[Path, str]:
    """Return the real paths, and what each of them is, for the reason why a writable mount of it needs consent."""
    own = (sys.prefix, sys.base_prefix, site.getusersitepackages())
    named = {
        **{mount.path: "mounted read-only" for mount in settings.mounts if mount.read_only},
        _PACKAGE: "Pumice itself",
        **dict.fromkeys(map(Path, own), "the Python environment of Pumice"),
        **dict.fromkeys((*settings.python, *settings.environments), "the Python environment"),
    }
    if settings.workdir_read_only:
        named.setdefault(settings.workdir, "the working directory, which is read-only")
    found = with_aliases(named)
    return {real: named[path] for real, path in found.items() if str(real) not in NEVER_SHARED and real.exists()}


def replaceable_link(settings: Settings) -> Path | None:
    """Return a link on the way to what is read-only that pods could replace: no mount protects a link."""
    is_exposed = _exposure(settings)
    mounted = [mount.path for mount in settings.mounts if mount.read_only]
    for path in (*settings.python, *settings.environments, *settings.interpreters, *mounted):
        for link in _links(path):
            if is_exposed(link.parent):
                return link
    return None


def exposed_imports(settings: Settings) -> Path | None:
    """Return a directory that pods write to and from which Pumice's own Python imports modules when it starts."""
    is_exposed = _exposure(settings)
    return next((Path(each) for each in sys.path if each and Path(each).is_dir() and is_exposed(Path(each))), None)


def _exposure(settings: Settings) -> Callable[[Path], bool]:
    """Return a function that says whether pods can write to a directory: by the nearest rule above it."""
    shared = [] if settings.workdir_read_only or not settings.share_workdir else [settings.workdir]
    shared += [mount.path for mount in settings.mounts if not mount.read_only]
    writable = [Path(os.path.realpath(path)) for path in shared]
    kept = read_only_paths(settings)

    def is_exposed(directory: Path) -> bool:
        real = Path(os.path.realpath(directory))
        depths = (
            max((len(each.parts) for each in rules if real.is_relative_to(each)), default=0)
            for rules in (writable, kept)
        )
        return next(depths) > next(depths)

    return is_exposed


def _links(path: Path) -> Iterator[Path]:
    """Yield every link that is followed on the way to a path, in its directories and at its end."""
    left, here = [*path.absolute().parts[1:]], Path("/")
    for _ in range(_MOST_LINKS * len(path.parts)):
        if not left:
            return
        part = left.pop(0)
        here = here.parent if part == ".." else here / part
        if here.is_symlink():
            yield here
            target = here.readlink()
            left = [*(target.parts[1:] if target.is_absolute() else target.parts), *left]
            here = Path("/") if target.is_absolute() else here.parent
