"""What the sandbox is told about a container: plain values, made by the engine and read by job-init."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the host, bound with everything below it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """Memory that goes with the pod; whoever in it names the same volume has the same."""

    target: str
    volume: str
    size: int | None = None
    mode: int = 0o1777
    read_only: bool = False
    group: int | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A small private file, bound in place."""

    path: str
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class RootFs:
    """`image` is the directory of an unpacked image, or None for the host's own file system.

    `upper` is a directory on disk that keeps the writable layer, or None for memory that goes with the container.
    """

    image: str | None = None
    upper: str | None = None
    read_only: bool = False  # but for what is mounted


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
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
    pids: int | None = None
    devices: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # host directories shown empty
    share_pid_with: str | None = None  # the container whose pid namespace is joined
