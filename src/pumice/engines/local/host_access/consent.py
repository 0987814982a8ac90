"""Checks that the user has consented to what a job wants of this machine's files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pumice.engines.local.host_access.access import (
    ConsentFacts,
    HostAccess,
    credential_of,
    host_volumes,
    is_private,
    is_within,
    why_consent,
)
from pumice.engines.local.host_access.credentials import credentials_in, credentials_of_machine, home_directories
from pumice.engines.local.host_access.grants import is_granted, remember
from pumice.engines.local.host_access.never_shared import is_never_shared
from pumice.engines.local.run_errors import Denied
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES
from pumice.engines.local.state.run_directory import state_error
from pumice.engines.local.state.settings import Settings, home_directory
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
    return ConsentFacts(
        writable=_real([] if settings.workdir_read_only else workdir),
        visible=_real([*workdir, *(each for each in settings.python if each not in wanted), *system, *shown]),
        homes=homes,
        credentials=[*credentials_in(homes), *credentials_of_machine()],
        private=_real([settings.state, *([settings.config] if settings.config is not None else [])]),
    )


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


def check_consent(
    settings: Settings, manifests: Iterable[Manifest], environ: Mapping[str, str]
) -> Sequence[HostAccess]:
    """Return what the Job and its pumice.toml want of this machine's files. Raises ConsentError or RefusedError."""
    # What no pod gets is refused where volumes are planned.
    volumes = [access for access in host_volumes(manifests) if not is_never_shared(access.path)]
    wanted = [*volumes, *settings.host_accesses]
    if not wanted:
        return ()
    facts = consent_facts(settings, environ)
    project = settings.project or settings.workdir
    if private := [access for access in wanted if is_private(access, facts)]:
        raise Denied.of([Problem(f"{access}: Pumice keeps its own files there") for access in private])
    missing = []
    for access in wanted:
        why = why_consent(access, facts)
        if why and not (_is_allowed(access, facts, settings.allowed) or is_granted(access, project, settings.state)):
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


def _is_allowed(access: HostAccess, facts: ConsentFacts, prefixes: Iterable[Path]) -> bool:
    """Credentials must be named themselves: consent for a home does not include them."""
    credential = credential_of(access, facts)
    return any(
        access.real.is_relative_to(prefix) and (credential is None or prefix.is_relative_to(credential))
        for prefix in _real(prefixes)
    )


def _real(paths: Iterable[Path]) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]
