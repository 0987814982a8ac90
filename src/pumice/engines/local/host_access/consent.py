"""Checks that the user has consented to what a job wants of this machine's files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from pumice.engines.local.host_access.access import (
    ConsentFacts,
    credential_of,
    host_sub_paths,
    host_volumes,
    is_private,
    is_within,
    read_only_path,
    why_consent,
)
from pumice.engines.local.host_access.aliases import with_aliases
from pumice.engines.local.host_access.credentials import credentials_in, credentials_of_machine, home_directories
from pumice.engines.local.host_access.grants import is_granted, remember
from pumice.engines.local.host_access.never_shared import is_never_shared, why_not
from pumice.engines.local.host_access.read_only import read_only_paths, replaceable_link
from pumice.engines.local.run_errors import Denied
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES, Mount
from pumice.engines.local.state.settings import HostAccess, Settings, home_directory
from pumice.engines.local.state.state_directory import state_error
from pumice.model.job import Manifest
from pumice.model.problem import Problem


class ConsentError(Denied):
    """The job wants paths of this machine that need consent: `accesses`."""

    accesses: tuple[HostAccess, ...] = ()


def remember_consent(error: ConsentError, settings: Settings) -> None:
    """Raises RunError if it cannot be remembered."""
    try:
        remember(error.accesses, settings.project or settings.workdir, settings.state)
    except OSError as problem:
        raise state_error(settings.state, problem) from problem


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
        credentials=list(with_aliases([*credentials_in(homes), *credentials_of_machine()])),
        private=list(with_aliases([settings.state, *([settings.config] if settings.config is not None else [])])),
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


def warn_of_sharing(settings: Settings) -> Iterator[str]:
    """Yield warnings about the working directory, and about links that pods could replace."""
    if not settings.share_workdir:
        hint = "change to a directory of your own, or name one with --mount PATH"
        yield f"the working directory is not shared: {why_not(settings.workdir)}\n  hint: {hint}"
    if (link := replaceable_link(settings)) is not None:
        hint = f"activate {os.path.realpath(link)} itself, or pass --workdir-read-only"
        yield f"{link} is a link where pods write: a pod could replace it, and so your Python\n  hint: {hint}"


def check_consent(
    settings: Settings, manifests: Sequence[Manifest], environ: Mapping[str, str]
) -> Sequence[HostAccess]:
    """Return what the Job and its pumice.toml want of this machine's files. Raises ConsentError or RefusedError."""
    # What no pod gets is refused where volumes are planned.
    volumes = [access for access in host_volumes(manifests) if not is_never_shared(access.path)]
    wanted = [*volumes, *settings.host_accesses]
    writes = [HostAccess(each.path, False, "pumice.toml [mounts]") for each in settings.mounts if not each.read_only]
    writes += host_sub_paths(manifests)
    if not wanted and not writes:
        return ()
    facts = consent_facts(settings, environ)
    if private := [access for access in wanted if is_private(access, facts)]:
        raise Denied.of([Problem(f"{access}: Pumice keeps its own files there") for access in private])
    missing = []
    known = {access.real for access in wanted if not access.read_only}
    # These are parts of what is shared anyway: they need consent only where they are read-only otherwise.
    parts = [each for each in writes if each.real not in known and read_only_path(each.real, facts) is not None]
    for access in (*wanted, *parts):
        why = why_consent(access, facts)
        if why and not _has_consent(access, settings, facts):
            missing.append((access, why))
    if missing:
        # The command line asks, or prints the whole command with --allow-host-path.
        error = ConsentError.of(
            [
                Problem(f"{access}: {why}, and needs your consent", python_hint=f'allow_host_path="{access.real}"')
                for access, why in missing
            ]
        )
        error.accesses = tuple(access for access, _ in missing)
        raise error
    return wanted


def check_host_access(
    settings: Settings, manifests: Sequence[Manifest], environ: Mapping[str, str]
) -> tuple[Sequence[HostAccess], Sequence[str]]:
    """Return what the job uses of this machine's files, and notes for the header. Raises RefusedError."""
    return check_consent(settings, manifests, environ), notes(settings, environ)


def refuse_writing(mount: Mount, settings: Settings, facts: ConsentFacts) -> Problem | None:
    """Return why a container must not have the mount: it would write to what is read-only, without consent."""
    access = HostAccess(Path(mount.source), False, f"mount at {mount.target}")
    if mount.read_only or read_only_path(access.real, facts) is None or _has_consent(access, settings, facts):
        return None
    option = f'allow_host_path="{access.real}"'
    message = f"{access}: {why_consent(access, facts)}, and needs your consent"
    return Problem(message, f"--allow-host-path {access.real}", python_hint=option)


def _has_consent(access: HostAccess, settings: Settings, facts: ConsentFacts) -> bool:
    project = settings.project or settings.workdir
    return _is_allowed(access, facts, settings.allowed) or is_granted(access, project, settings.state)


def _is_allowed(access: HostAccess, facts: ConsentFacts, prefixes: Iterable[Path]) -> bool:
    """Credentials, and writing to what is read-only, must be named themselves: a directory above does not include them.

    Consent for a home, for example, is no consent to change the Python environment in it.
    """
    guarded = credential_of(access, facts) or (None if access.read_only else read_only_path(access.real, facts))
    return any(
        access.real.is_relative_to(prefix) and (guarded is None or prefix.is_relative_to(guarded))
        for prefix in _real(prefixes)
    )


def _real(paths: Iterable[Path]) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]
