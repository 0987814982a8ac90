"""Settings of a run, from flags and `pumice.toml`: everything that is not in the Job."""

from __future__ import annotations

import dataclasses
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pumice.store.run_errors import Denied, InvalidOption


@dataclasses.dataclass(frozen=True, slots=True)
class HostAccess:
    """A path of this machine that a Job or a pumice.toml names. `origin` says where.

    `real` is where it leads now, and what is mounted: consent is for that, whatever a pod does to links later.
    """

    path: Path
    read_only: bool
    origin: str
    real: Path = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "real", Path(os.path.realpath(self.path)))

    @property
    def mode(self) -> str:
        return "read-only" if self.read_only else "read/write"

    def __str__(self) -> str:
        leads = "" if self.real == self.path else f" -> {self.real}"
        return f"{self.path}{leads} ({self.mode}, {self.origin})"


class ConsentError(Denied):
    """The job wants paths of this machine that need consent: `accesses`."""

    accesses: tuple[HostAccess, ...] = ()


# Where sockets and secrets are if the user has no runtime directory.
RUNTIME_PARENT: Final = Path("/tmp")  # noqa: S108 - `daemon/runtime_files.py` checks owner, type and mode


class ExtraMount(Struct, frozen=True):
    """A path of this machine that all pods see; at its own path unless `at` names another."""

    path: Path
    read_only: bool = False
    at: Path | None = None

    @property
    def target(self) -> Path:
        return self.at or self.path


class FetchedCode(Struct, frozen=True):
    """The code of a Job of a cluster: in a directory of this machine, at the paths where its pods had it."""

    directory: Path
    targets: tuple[Path, ...]
    origin: str  # CONTEXT/NAMESPACE


class Retention(Struct, frozen=True):
    """Which finished runs are kept: those of the last days, a number for each name, and a size of all in bytes."""

    keep_days: float = 30
    keep_per_name: int = 50
    max_size: int = 20 << 30


class Settings(Struct, frozen=True, kw_only=True):
    workdir: Path  # visible in every pod at the same path
    share_workdir: bool = True  # if not, the working directory of pods has this path, but is their own
    state: Path
    workdir_read_only: bool = False
    snapshot: bool = False  # pods see its code as it was submitted
    project: Path | None = None  # the directory of the Job file, if it is not the working directory
    config: Path | None = None  # the directory of the user's own config.toml
    host_accesses: tuple[HostAccess, ...] = ()  # what pumice.toml wants outside of its directory
    own_accesses: tuple[HostAccess, ...] = ()  # and in it
    allowed: tuple[Path, ...] = ()  # the user's consent: prefixes of paths that the job may use
    workdir_environment: Path | None = None  # the Python environment that it is in, and therefore read-only
    python: tuple[Path, ...] = ()  # directories of the active Python environment, visible read-only
    environments: tuple[Path, ...] = ()  # directories of every Python that the user may start next
    interpreters: tuple[Path, ...] = ()  # and their interpreters, which may be links
    python_text: str = ""  # what the header says about it
    path: str = ""  # prepended to PATH where the host serves as image
    images: Mapping[str, Path] = field(default_factory=dict)
    entrypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # added to the PATH of an image's containers
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)  # by path in an image's containers
    env: Mapping[str, str] = field(default_factory=dict)
    passed_on: tuple[str, ...] = ()  # names in `env` whose values are the caller's, and not stored
    mounts: tuple[ExtraMount, ...] = ()
    keep: bool = False
    pids: int = 4096  # processes that a pod may have
    log_size: int = 2 << 30  # bytes of the log of a container that are kept
    disk: int | None = None  # bytes that the job's claims, volumes and layers may take on disk
    retention: Retention = field(default_factory=Retention)  # which finished runs are removed
    unconfined: bool = False  # containers have no system call filter, and may gain privileges
    nested_namespaces: bool = False  # containers can make user namespaces

    def shared_paths(self) -> list[Path]:
        """Return the paths of this machine that containers get, besides volumes and images."""
        programs = [path for paths in self.programs.values() for path in paths]
        files = [path for paths in self.files.values() for path in paths.values()]
        return [self.workdir, *self.python, *(mount.path for mount in self.mounts), *programs, *files]


def config_directory(environ: Mapping[str, str]) -> Path | None:
    """Return `$XDG_CONFIG_HOME/pumice`; None for a user without a home."""
    base = Path(environ.get("XDG_CONFIG_HOME") or "")
    if not base.is_absolute():
        home = home_directory(environ)
        if home is None:
            return None
        base = home / ".config"
    return base / "pumice"


def private_directories(settings: Settings, environ: Mapping[str, str]) -> list[Path]:
    """Return the directories that Pumice keeps for itself: state, settings, and those of sockets and secrets."""
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or "/run", "pumice")
    taken = sorted(RUNTIME_PARENT.glob(f"pumice-{os.getuid()}*"))
    return [settings.state, *([settings.config] if settings.config is not None else []), runtime, *taken]


def home_directory(environ: Mapping[str, str]) -> Path | None:
    """Return the home directory; None for a user without an account. A relative HOME is ignored."""
    home = Path(environ.get("HOME") or "")
    return home if home.is_absolute() else account_home()


def account_home() -> Path | None:
    """Return the home directory of the user's account; None for a user without one."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def working_directory() -> Path:
    """Raises InvalidOption."""
    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidOption("the working directory is gone", "change to one that exists") from error
