"""What stays hidden in every container, wherever a mount would show it.

Credentials, Pumice's own directories, and sockets of this machine's programs that exist when the container starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from pumice.engines.local.host_access.credentials import credentials_in, credentials_of_machine, home_directories
from pumice.engines.local.host_access.sockets import HostSockets
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES, Mount
from pumice.engines.local.state.settings import Settings, home_directory

_HOMES = ("/home", "/root")


class Covers(Struct, frozen=True):
    """Paths in a container that appear empty, and mounts that keep a pod from moving them away."""

    directories: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    pins: tuple[Mount, ...] = ()


@dataclass(slots=True)
class HiddenPaths:
    """`directories` and `files` are real paths of this machine; `homes` are empty where it serves as image."""

    directories: Sequence[str]
    files: Sequence[str]
    homes: Sequence[str] = ()
    own: str = ""  # the state directory: its volumes are the job's, with all sockets in them
    sockets: HostSockets = field(default_factory=HostSockets)
    _below: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)  # by the source of a mount

    def covers(self, mounts: Iterable[Mount], *, host_is_image: bool) -> Covers:
        directories = [*_HOMES, *filter(_is_shown, (*self.homes, *self.directories))] if host_is_image else []
        files = [*filter(_is_shown, self.files)] if host_is_image else []
        pins: dict[Mount, None] = {}
        for mount in mounts:
            if not self.own or not mount.source.startswith(f"{self.own}/"):
                files += [mount.target + path for path in self.sockets.below(mount.source)]
            for hidden, found in zip(self._hidden_below(mount.source), (directories, files), strict=True):
                found += [mount.target + path for path in hidden]
                if not mount.read_only:
                    pins |= dict.fromkeys(pin for path in hidden for pin in _pins(mount, path))
        return Covers(tuple(dict.fromkeys(directories)), tuple(dict.fromkeys(files)), tuple(pins))

    def _hidden_below(self, source: str) -> tuple[list[str], list[str]]:
        """Return the hidden paths below the source of a mount, relative to it; large jobs ask once per container."""
        if source not in self._below:
            prefix = os.path.realpath(source).rstrip("/") + "/"
            self._below[source] = (
                [path[len(prefix) - 1 :] for path in self.directories if path.startswith(prefix)],
                [path[len(prefix) - 1 :] for path in self.files if path.startswith(prefix)],
            )
        return self._below[source]


def _is_shown(path: str) -> bool:
    """Whether containers see the path where this machine serves as image."""
    return path.split("/")[1] in SYSTEM_DIRECTORIES


def _pins(mount: Mount, path: str) -> Iterable[Mount]:
    """Mount the parents of a hidden path on themselves: a pod cannot rename a mount point, and find it next time."""
    above = path.rpartition("/")[0]
    while above:
        yield Mount(mount.source + above, mount.target + above, volume=mount.volume)
        above = above.rpartition("/")[0]


def hidden_paths(settings: Settings, environ: Mapping[str, str]) -> HiddenPaths:
    """Find what exists now. A directory for the user's settings is made, or a pod could make it."""
    homes = home_directories(home_directory(environ))
    found = [*credentials_in(homes), settings.state]
    if settings.config is not None and not settings.workdir_read_only:
        _make_config_directory(settings.config, homes)
    if settings.config is not None:
        found.append(settings.config)
    if os.geteuid() == 0:
        # Other users cannot read them.
        found += credentials_of_machine()
    real = dict.fromkeys(os.path.realpath(path) for path in found)
    directories = [path for path in real if Path(path).is_dir()]
    return HiddenPaths(
        directories,
        [path for path in real if path not in directories and Path(path).is_file()],
        [str(home) for home in homes],
        str(settings.state),
    )


def _make_config_directory(directory: Path, homes: Iterable[Path]) -> None:
    if any(directory.is_relative_to(home) for home in homes):
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(exist_ok=True, mode=0o700)
