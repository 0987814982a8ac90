"""What pods must neither change nor see, wherever a mount shows it: the guards of each mount of a container.

Read-only are the Python environments and what the user mounts read-only. Hidden are credentials, Pumice's own
directories, and sockets of this machine's programs that exist when the container starts. A mount may show such a path
under any name, so guards follow from its source, whoever asked for it: the user, a pumice.toml or a volume of the Job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field

from pumice.engines.local.host_access.credentials import (
    credentials_in,
    credentials_of_machine,
    home_directories,
    named_credentials,
)
from pumice.engines.local.host_access.read_only import read_only_paths, with_aliases
from pumice.engines.local.sandbox.specs import (
    EMPTY_DIRECTORY,
    EMPTY_FILE,
    PINNED,
    READ_ONLY,
    SYSTEM_DIRECTORIES,
    Guard,
    Mount,
)
from pumice.store.settings import Settings, home_directory, private_directories

_HOMES = ("/home", "/root")
_SOCKET_TABLE: Final = Path("/proc/net/unix")
_SOCKET_FIELDS: Final = 8  # the last is the path
_FRESH: Final = 0.5  # seconds for which the table is not read again: large jobs ask once per container


class HostSockets:
    """The Unix sockets of this machine's programs: a pod that can open the file reaches the program."""

    def __init__(self, table: Path = _SOCKET_TABLE, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._clock = clock
        self._read = float("-inf")
        self._paths: list[str] = []

    def below(self, source: str) -> list[str]:
        """Return the sockets in a directory, relative to it.

        The kernel lists a path as its program gave it. A relative one may end in any directory, so every end counts.
        """
        if self._clock() - self._read > _FRESH:
            self._paths, self._read = self._current(), self._clock()
        prefix = os.path.realpath(source).rstrip("/") + "/"
        found = [path[len(prefix) - 1 :] for path in self._paths if path.startswith(prefix)]
        ends = set()
        for path in {path for path in self._paths if not path.startswith("/")}:
            # `b/c` and `c` for `../b/c`.
            parts = [part for part in path.split("/") if part not in ("", ".", "..")]
            ends |= {"/".join(parts[start:]) for start in range(len(parts))}
        return found + [f"/{end}" for end in sorted(ends) if Path(source, end).is_socket()]

    def _current(self) -> list[str]:
        """Read the sockets of this network namespace, which those of other containers and pods are not in."""
        try:
            lines = self._table.read_text(errors="surrogateescape").splitlines()[1:]
        except OSError:
            return []
        paths = [fields[-1] for line in lines if len(fields := line.split(None, _SOCKET_FIELDS - 1)) == _SOCKET_FIELDS]
        # A name in the abstract namespace begins with @; it belongs to a network, not to a file.
        return [os.path.realpath(path) if path.startswith("/") else path for path in paths if not path.startswith("@")]


class GuardedPaths(Struct):
    """All are real paths of this machine. `homes` are empty where it serves as image."""

    directories: Sequence[str]
    files: Sequence[str]
    read_only: Sequence[str] = ()
    homes: Sequence[str] = ()
    own: str = ""  # the state directory: its volumes are the job's, with all sockets in them
    sockets: HostSockets = field(default_factory=HostSockets)
    _below: dict[tuple[str, bool], tuple[Guard, ...]] = field(default_factory=dict)  # by source and mode of a mount

    def hidden_in_root(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the directories and the files that appear empty where this machine serves as image."""
        directories = dict.fromkeys((*_HOMES, *filter(_is_shown, (*self.homes, *self.directories))))
        return tuple(directories), tuple(filter(_is_shown, self.files))

    def restrict(self, mount: Mount) -> Mount | None:
        """Return a mount of a part of the working directory as that would show it: read-only, or not at all (None).

        What the user or a Job names is refused where it is guarded, not restricted.
        """
        if any(f"{mount.source}/".startswith(f"{path}/") for path in (*self.directories, *self.files)):
            return None
        if any(f"{mount.source}/".startswith(f"{path}/") for path in self.read_only):
            return mount._replace(read_only=True)
        return mount

    def guard(self, mount: Mount) -> Mount:
        """Return the mount with its guards. What it shows below a read-only path is hidden, if at all, as elsewhere."""
        guards = self._guards_below(mount.source, read_only=mount.read_only)
        if not self.own or not mount.source.startswith(f"{self.own}/"):
            guards += tuple(Guard(path[1:], EMPTY_FILE) for path in self.sockets.below(mount.source))
        return mount._replace(guards=guards) if guards else mount

    def _guards_below(self, source: str, *, read_only: bool) -> tuple[Guard, ...]:
        """Return the guards of a mount from this source; large jobs ask once per container."""
        key = source, read_only
        if key not in self._below:
            prefix = os.path.realpath(source).rstrip("/") + "/"
            kinds = {READ_ONLY: () if read_only else self.read_only}
            kinds |= {EMPTY_DIRECTORY: self.directories, EMPTY_FILE: self.files}
            found = {
                path.removeprefix(prefix): kind
                for kind, paths in kinds.items()
                for path in paths
                if path.startswith(prefix)
            }
            if not read_only:
                parents = {str(above) for path in found for above in PurePosixPath(path).parents[:-1]}
                found = dict.fromkeys(parents, PINNED) | found
            # An outer mount would cover those below it.
            ordered = sorted(found.items(), key=lambda each: PurePosixPath(each[0]).parts)
            self._below[key] = tuple(Guard(*each) for each in ordered)
        return self._below[key]


def _is_shown(path: str) -> bool:
    """Whether containers see the path where this machine serves as image."""
    return path.split("/")[1] in SYSTEM_DIRECTORIES


def guarded_paths(settings: Settings, environ: Mapping[str, str]) -> GuardedPaths:
    """Find what exists now. A directory for the user's settings is made, or a pod could make it."""
    homes = home_directories(home_directory(environ))
    config = settings.config
    if config is not None and not settings.workdir_read_only and any(config.is_relative_to(home) for home in homes):
        config.parent.mkdir(parents=True, exist_ok=True)
        config.mkdir(exist_ok=True, mode=0o700)
    found = [*credentials_in(homes), *named_credentials(environ), *private_directories(settings, environ)]
    if os.geteuid() == 0:
        # Other users cannot read them.
        found += credentials_of_machine()
    real = list(map(str, with_aliases(found)))
    directories = [path for path in real if Path(path).is_dir()]
    return GuardedPaths(
        directories,
        [path for path in real if path not in directories and Path(path).is_file()],
        [str(path) for path in read_only_paths(settings)],
        [str(home) for home in homes],
        str(settings.state),
    )
