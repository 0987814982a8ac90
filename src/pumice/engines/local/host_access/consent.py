"""Checks that the user has consented to what a job wants of this machine's files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.host_access.access import (
    ConsentFacts,
    guarded_path,
    host_sub_paths,
    host_volumes,
    is_within,
    read_only_path,
    why_consent,
)
from pumice.engines.local.host_access.credentials import (
    credentials_in,
    credentials_of_machine,
    home_directories,
    named_credentials,
)
from pumice.engines.local.host_access.read_only import exposed_imports, read_only_paths, replaceable_link, with_aliases
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES, Mount
from pumice.model.job import Manifest
from pumice.model.problem import Option, Problem
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.state_directory import state_error
from pumice.store.never_shared import is_never_shared, why_not
from pumice.store.run_errors import Denied
from pumice.store.settings import ConsentError, HostAccess, Settings, home_directory, private_directories

_FILE: Final = "consent.json"


class _Grant(msgspec.Struct, frozen=True):
    """A path that the user has allowed: by project, real path, and whether it may be written to.

    In the state directory, which no pod sees. A project's own files could be changed by its pods.
    """

    project: str
    path: str
    writable: bool


def remember_consent(error: ConsentError, settings: Settings) -> None:
    """Raises RunError if it cannot be remembered."""
    project = str(settings.project or settings.workdir)
    added = {_Grant(project, str(each.real), not each.read_only) for each in error.accesses}
    grants = sorted(_grants(settings) | added, key=lambda each: (each.project, each.path))
    try:
        settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(settings.state / _FILE, msgspec.json.encode(grants), sync=False)
    except OSError as problem:
        raise state_error(settings.state, problem) from problem


def _grants(settings: Settings) -> set[_Grant]:
    """Nothing is granted where the file is missing or broken."""
    try:
        return set(msgspec.json.decode((settings.state / _FILE).read_bytes(), type=list[_Grant]))
    except (OSError, msgspec.DecodeError):
        return set()


def consent_facts(settings: Settings, environ: Mapping[str, str]) -> ConsentFacts:
    homes = home_directories(home_directory(environ))
    system = [Path("/", name) for name in SYSTEM_DIRECTORIES]
    workdir = [settings.workdir] if settings.share_workdir else []
    # What pumice.toml mounts is not visible before the user consents.
    wanted = {access.path for access in settings.host_accesses}
    shown = [each.path for each in settings.mounts if each.path not in wanted]
    return msgspec.structs.replace(
        write_facts(settings),
        visible=_real([*workdir, *(each for each in settings.python if each not in wanted), *system, *shown]),
        homes=list(with_aliases(homes)),
        credentials=list(
            with_aliases([*credentials_in(homes), *credentials_of_machine(), *named_credentials(environ)])
        ),
        private=list(with_aliases(private_directories(settings, environ))),
    )


def write_facts(settings: Settings) -> ConsentFacts:
    """Return what decides about writing to read-only paths."""
    shared = settings.share_workdir and not settings.workdir_read_only
    writable = _real([settings.workdir] if shared else [])
    return ConsentFacts(writable=writable, read_only=read_only_paths(settings))


def is_ordinary(directory: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a directory is neither a home nor above one, nor one with credentials."""
    real = Path(os.path.realpath(directory))
    homes = home_directories(home_directory(environ))
    return not is_within(real, credentials_in(homes)) and not any(home.is_relative_to(real) for home in homes)


def notes(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Return what the header of a run says about the working directory."""
    if not settings.share_workdir or is_ordinary(settings.workdir, environ):
        return []
    mode = "read-only" if settings.workdir_read_only else "read/write"
    return [f"working directory {settings.workdir} ({mode}) has a home: its credentials are hidden"]


def warn_of_sharing(settings: Settings, warn: Callable[[str], None]) -> None:
    """Warn of a working directory that is not shared or read-only, and of what pods could replace."""
    other = "change to a directory of your own, or name one with --mount PATH"
    if not settings.share_workdir:
        warn(f"the working directory is not shared: {why_not(settings.workdir)}\n  hint: {other}")
    if settings.workdir_environment is not None:
        where = settings.workdir_environment
        warn(f"the working directory is in the Python environment {where}, and read-only\n  hint: {other}")
    if (link := replaceable_link(settings)) is not None:
        hint = f"name {os.path.realpath(link)} itself, or pass --workdir-read-only"
        warn(f"{link} is a link where pods write: a pod could replace it, and so your Python\n  hint: {hint}")
    elif (directory := exposed_imports(settings)) is not None:
        hint = "run jobs of others with --workdir-read-only, or with a Pumice in an environment of its own"
        warn(f"Pumice imports modules from {directory}, where pods write: they could add one\n  hint: {hint}")


def check_consent(
    settings: Settings, manifests: Sequence[Manifest], environ: Mapping[str, str]
) -> Sequence[HostAccess]:
    """Return what the Job and its pumice.toml want of this machine's files. Raises ConsentError or RefusedError."""
    # What no pod gets is refused where volumes are planned.
    volumes = [access for access in host_volumes(manifests) if not is_never_shared(access.path)]
    wanted = [*volumes, *settings.host_accesses]
    parts = [*settings.own_accesses, *host_sub_paths(manifests)]
    if not wanted and not parts:
        return ()
    facts = consent_facts(settings, environ)
    if private := [access for access in (*wanted, *parts) if is_within(access.real, facts.private)]:
        raise Denied.of([Problem(f"{access}: Pumice keeps its own files there") for access in private])
    missing = []
    known = {access.real for access in wanted if not access.read_only}
    # Parts of what is shared anyway need consent only where they are hidden or read-only otherwise.
    guarded = [each for each in parts if each.real not in known and guarded_path(each, facts) is not None]
    for access in (*wanted, *guarded):
        why = why_consent(access, facts)
        if why and not _has_consent(access, settings, facts):
            missing.append((access, why))
    if missing:
        error = ConsentError.of([Problem(f"{access}: {why}, and needs your consent") for access, why in missing])
        error.accesses = tuple(access for access, _ in missing)
        paths = [*dict.fromkeys(str(access.real) for access in error.accesses)]
        error.remedy = Option("allow-host-path", paths if len(paths) > 1 else paths[0])
        raise error
    return wanted


def refuse_writing(mount: Mount, settings: Settings, facts: ConsentFacts) -> Problem | None:
    """Return why a container must not have the mount: it would write to what is read-only, without consent."""
    access = HostAccess(Path(mount.source), False, f"mount at {mount.target}")
    if mount.read_only or read_only_path(access.real, facts) is None or _has_consent(access, settings, facts):
        return None
    message = f"{access}: {why_consent(access, facts)}, and needs your consent"
    return Problem(message, (Option("allow-host-path", str(access.real)),))


def _has_consent(access: HostAccess, settings: Settings, facts: ConsentFacts) -> bool:
    """Credentials, and writing to what is read-only, must be named themselves: a directory above does not include them.

    Consent for a home, for example, is no consent to change the Python environment in it.
    """
    guarded = guarded_path(access, facts)
    for prefix in _real(settings.allowed):
        if access.real.is_relative_to(prefix) and (guarded is None or prefix.is_relative_to(guarded)):
            return True
    grants, project = _grants(settings), str(settings.project or settings.workdir)
    # Consent to write includes reading.
    wanted = (True, False) if access.read_only else (True,)
    return any(_Grant(project, str(access.real), writable) in grants for writable in wanted)


def _real(paths: Iterable[Path]) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]
