"""What a job wants of this machine's files, which of it needs the user's consent, and whether the user has given it.

Ordinary data directories are mounted as the Job says. Homes, files of other users, system directories, sockets and
credentials need consent, because people run Jobs that others wrote.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pumice.engines.local.host_access.credentials import (
    credentials_in,
    credentials_of_machine,
    home_directories,
    named_credentials,
)
from pumice.engines.local.host_access.read_only import exposed_imports, read_only_paths, replaceable_link, with_aliases
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES, Mount
from pumice.engines.local.sandbox.syscalls import open_beneath
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Option, Problem
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.state_directory import state_error
from pumice.store.never_shared import is_never_shared, why_not
from pumice.store.run_errors import Denied
from pumice.store.settings import ConsentError, HostAccess, Settings, home_directory, private_directories

_FILE: Final = "consent.json"
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a pod gets its own instead
_MACHINE: Final = frozenset({"boot", "dev", "proc", "run", "sys"}) | SYSTEM_DIRECTORIES - {"opt"}
_OPEN_TO_ALL: Final = Path("/var/tmp")  # noqa: S108 - not a system directory, though it is in one


class ConsentFacts(Struct, frozen=True, kw_only=True):
    """What decides about consent besides the path. All paths are real paths."""

    writable: Sequence[Path] = ()  # what pods may change anyway: the working directory
    read_only: Mapping[Path, str] = msgspec.field(default_factory=dict)  # what they must not, and what it is
    visible: Sequence[Path] = ()  # what pods see anyway
    homes: Sequence[Path] = ()
    credentials: Sequence[Path] = ()
    private: Sequence[Path] = ()  # Pumice's own directories, which no pod ever gets
    user: int = msgspec.field(default_factory=os.geteuid)


def host_volumes(manifests: Iterable[Manifest]) -> list[HostAccess]:
    """Return the hostPath volumes of pods; one that a container may write to is writable."""
    writable: dict[tuple[str, str], bool] = {}
    for volume, mounts in _host_paths(manifests):
        key = normal_path(str(volume["hostPath"].get("path"))), str(volume.get("name"))
        writable[key] = writable.get(key, False) or any(not mount.get("readOnly") for mount in mounts)
    return [HostAccess(Path(path), not write, f"hostPath of volume {name}") for (path, name), write in writable.items()]


def host_sub_paths(manifests: Iterable[Manifest]) -> list[HostAccess]:
    """Return the parts of hostPath volumes that containers mount to write to them."""
    found = {
        (
            Path(normal_path(str(volume["hostPath"].get("path"))), str(mount["subPath"])),
            f"hostPath of volume {volume.get('name')}",
        )
        for volume, mounts in _host_paths(manifests)
        for mount in mounts
        if mount.get("subPath") and not mount.get("readOnly")
    }
    return [HostAccess(path, read_only=False, origin=f"subPath in {volume}") for path, volume in sorted(found)]


def _host_paths(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, list[Manifest]]]:
    """Yield each hostPath volume with its mounts."""
    for manifest in manifests:
        spec = manifest["spec"]
        mounts = [mount for container in all_containers(spec) for mount in container.get("volumeMounts") or []]
        for volume in spec.get("volumes") or []:
            if volume.get("hostPath") is not None:
                yield volume, [mount for mount in mounts if mount.get("name") == volume.get("name")]


def normal_path(path: str) -> str:
    """Return a path without `..`, `.` and empty parts: `/a/../../b` is `/b`, as in a container; `//b` is `/b`.

    Every rule about a path of a Job, and what is mounted, goes by this text.
    """
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def real_paths(accesses: Iterable[HostAccess], others: Iterable[Path]) -> dict[str, str]:
    """Return where each path leads. Read once, before any pod runs: pods can change links in what they share."""
    return {
        **{str(path): os.path.realpath(path) for path in others},
        **{str(access.path): str(access.real) for access in accesses},
    }


def read_real(path: str) -> bytes:
    """Read a file by its real path. Raises OSError (ELOOP) where a pod has put a link into the path since."""
    with os.fdopen(open_beneath("/", path[1:], os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return file.read()


def is_within(path: Path, directories: Iterable[Path]) -> bool:
    return any(path.is_relative_to(directory) for directory in directories)


def credential_of(access: HostAccess, facts: ConsentFacts) -> Path | None:
    """Return the credentials that the path is, or is part of."""
    return next((each for each in facts.credentials if access.real.is_relative_to(each)), None)


def read_only_path(real: Path, facts: ConsentFacts) -> Path | None:
    """Return the read-only path that a path is or is in, unless what the user shares for writing is in between."""
    found = max((each for each in facts.read_only if real.is_relative_to(each)), key=_depth, default=None)
    shared = max((_depth(each) for each in facts.writable if real.is_relative_to(each)), default=0)
    return found if found is not None and _depth(found) >= shared else None


def guarded_path(access: HostAccess, facts: ConsentFacts) -> Path | None:
    """Return the credentials, or the read-only path that it would write to, that an access leads to."""
    return credential_of(access, facts) or (None if access.read_only else read_only_path(access.real, facts))


def _depth(path: Path) -> int:
    return len(path.parts)


def why_consent(access: HostAccess, facts: ConsentFacts) -> str:
    """Return why the path needs consent; empty if it does not."""
    real = access.real
    if credential_of(access, facts) is not None:
        return "holds credentials"
    if not access.read_only and (found := read_only_path(real, facts)) is not None:
        where = "is" if found == real else f"is in {found},"
        return f"{where} {facts.read_only[found]}"
    if real == SHARED_MEMORY or is_within(real, facts.writable):
        return ""
    if access.read_only and is_within(real, facts.visible):
        return ""
    if home := next((each for each in facts.homes if real == each), None):
        return "is a home directory"
    if home := next((each for each in facts.homes if real.is_relative_to(each)), None):
        return f"is in the home directory {home}"
    if home := next((each for each in facts.homes if each.is_relative_to(real)), None):
        return f"contains the home directory {home}"
    system = _MACHINE | {"opt"} if facts.user == 0 and not access.read_only else _MACHINE
    if len(real.parts) > 1 and real.parts[1] in system and not real.is_relative_to(_OPEN_TO_ALL):
        return "is in a system directory"
    return _why_of_owner(real, facts.user)


def _why_of_owner(real: Path, user: int) -> str:
    try:
        found = real.stat()
    except OSError:
        # A path that does not exist is created by this user; one that cannot be looked at cannot be mounted.
        return ""
    if stat.S_ISSOCK(found.st_mode):
        return "is a socket of a program on this machine"
    if found.st_uid in (0, user):
        return ""
    # The kernel shows this user for files of users who do not exist in this user namespace.
    overflow = int(Path("/proc/sys/kernel/overflowuid").read_text())
    if found.st_uid == overflow and Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        return ""
    try:
        return f"belongs to another user, {pwd.getpwuid(found.st_uid).pw_name}"
    except KeyError:
        return f"belongs to another user, {found.st_uid}"


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
