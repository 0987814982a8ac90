"""What the sandbox needs to know about a container: plain values that the engine creates and job-init reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# What containers see of this machine where it serves as image: programs, libraries and their settings, no data.
SYSTEM_DIRECTORIES = frozenset(
    {"bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "snap", "usr", "var"}
)

# What containers can have, by number, and the names as in a manifest: what container runtimes give, without MKNOD.
CAPABILITIES: Mapping[str, int] = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}
WAKE_ALARM = 35  # of a process that only holds namespaces
# NET_RAW only if the Job names it: `ping` works without.
DEFAULT_CAPABILITIES = tuple(number for name, number in CAPABILITIES.items() if name != "NET_RAW")


# What a guard does to a path below a mount.
PINNED, READ_ONLY, EMPTY_DIRECTORY, EMPTY_FILE = "pinned", "read-only", "empty-directory", "empty-file"


class Guard(NamedTuple):
    """Protects a path, which is relative to the mount that shows it and has no links in it.

    Each guard is a mount of its own. The kernel refuses to rename or remove a mount point, and a directory that is
    PINNED is nothing else. One that is READ_ONLY stays so; the others appear empty.
    """

    path: str
    kind: str


class Mount(NamedTuple):
    """A file or directory of the host, bound with all mounts below it.

    `volume`, if set, is a directory above the source whose content pods can change: no link below it is followed. It is
    `/` for a source that is a real path. `guards` are in the order in which they are mounted: outer ones first.
    """

    source: str
    target: str
    read_only: bool = False
    volume: str = ""
    guards: tuple[Guard, ...] = ()


class Tmpfs(NamedTuple):
    """A memory volume; containers of a pod that name the same volume share it."""

    target: str
    volume: str
    size: int | None = None
    mode: int = 0o1777
    read_only: bool = False
    group: int | None = None


class File(NamedTuple):
    """A small private file at `path`. `shared` says that many containers of the job have the same one."""

    path: str
    data: bytes
    mode: int = 0o644
    shared: bool = False


class SandboxOptions(NamedTuple):
    """`shared` are the paths of the host that containers will mount.

    With `nested`, containers can make user namespaces.
    """

    shared: Sequence[str] = ()
    nested: bool = False


class RootFs(NamedTuple):
    """`image` is the real path of a directory with an unpacked image, or None for the host's file system.

    `upper` is the directory that keeps the writable layer, or None for memory that ends with the container.
    """

    image: str | None = None
    upper: str | None = None
    read_only: bool = False  # mounts excepted


class ContainerSpec(NamedTuple):
    id: str
    pod: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    root: RootFs
    mounts: tuple[Mount | Tmpfs, ...] = ()
    files: tuple[File, ...] = ()
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    memory: int | None = None  # bytes
    cpu_quota: float | None = None
    pids: int | None = None  # processes of the pod, where there are control groups
    all_processes: int | None = None  # of the whole job, elsewhere
    devices: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # directories of the root that appear empty
    hidden_files: tuple[str, ...] = ()  # files of the root that appear empty
    share_pid_with: str | None = None  # the container whose pid namespace this one joins
    capabilities: tuple[int, ...] = DEFAULT_CAPABILITIES
    confined: bool = True  # by the system call filter, and no program gives a process more privileges
    no_new_privileges: bool = False  # also where it is not confined
