"""What a job wants of this machine's files, and which of it needs the user's consent.

Ordinary data directories are mounted as the Job says. Homes, files of other users, system directories, sockets and
credentials need consent, because people run Jobs that others wrote.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES
from pumice.engines.local.sandbox.syscalls import open_beneath
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.store.settings import HostAccess

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
