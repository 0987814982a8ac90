"""Between fork and exec: what the new process does to itself before it becomes the command of a container.

Errors travel back through a pipe that closes by itself at exec: nothing in it means that the command runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import exec_command, privileges
from pumice.engines.local.sandbox.net import job_network
from pumice.engines.local.sandbox.rootfs import container_root
from pumice.engines.local.sandbox.rootfs.job_filesystem import Ground
from pumice.engines.local.sandbox.sandbox_errors import INTERNAL, WORKING_DIRECTORY, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec

FAILED_BEFORE_EXEC = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """Of job-init's process, which its children get back as they were."""

    open_files: tuple[int, int]
    last_capability: int


@dataclass(frozen=True, slots=True)
class Streams:
    stdout: int
    stderr: int
    errors: int


@dataclass(frozen=True, slots=True)
class Birth:
    """All that a new process needs to become a container."""

    spec: ContainerSpec
    ground: Ground
    namespaces: tuple[int, ...]
    files: list[str]
    cgroups: list[str]
    limits: Limits


def become_container(birth: Birth, streams: Streams) -> NoReturn:
    def prepare() -> None:
        privileges.default_signals()
        join_cgroups(birth.cgroups)
        job_network.enter(birth.namespaces)
        syscalls.unshare(syscalls.NEWNS)
        parts = container_root.enter_root(birth.spec, birth.ground, birth.files)
        if birth.spec.root.read_only:
            make_working_directory(birth.spec.cwd)
            container_root.seal(parts)
        settle(birth, streams)
        exec_command.execute(birth.spec.argv, birth.spec.env)

    or_report(prepare, streams.errors)


def become_execution(
    birth: Birth, streams: Streams, container: int, argv: Sequence[str], env: dict[str, str]
) -> NoReturn:
    """A further process in a container that runs: `container` is the pidfd of its first process."""

    def prepare() -> None:
        privileges.default_signals()
        join_cgroups(birth.cgroups)
        syscalls.setns(container, syscalls.NEWNS | syscalls.NEWNET | syscalls.NEWUTS | syscalls.NEWIPC)
        settle(birth, streams)
        exec_command.execute(argv, env)

    or_report(prepare, streams.errors)


def join_cgroups(cgroups: Sequence[str]) -> None:
    for cgroup in cgroups:
        job_network.write(f"{cgroup}/cgroup.procs", "0")


def settle(birth: Birth, streams: Streams) -> None:
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (streams.stdout, 1), (streams.stderr, 2)):
        os.dup2(source, target)
    make_working_directory(birth.spec.cwd)
    limits = birth.limits
    privileges.restrict(
        birth.spec,
        all_users=birth.ground.all_users,
        open_files=limits.open_files,
        last_capability=limits.last_capability,
    )
    cwd = birth.spec.cwd or "/"
    try:
        os.chdir(cwd)
    except OSError as error:
        raise StartError(WORKING_DIRECTORY, f"{cwd}: not usable as working directory: {error.strerror}") from error


def make_working_directory(cwd: str) -> None:
    try:
        os.makedirs(cwd or "/", exist_ok=True)
    except OSError as error:
        why = error.strerror
        raise StartError(WORKING_DIRECTORY, f"{cwd}: the working directory cannot be made: {why}") from error


def or_report(work: Callable[[], None], errors: int) -> NoReturn:
    try:
        work()
    except StartError as error:
        report = [error.kind, error.message]
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's loop
        report = [INTERNAL, f"{type(error).__name__}: {error}"]
    else:
        report = [INTERNAL, "the command was not executed"]
    os.write(errors, json.dumps(report).encode()[:60_000])
    os._exit(FAILED_BEFORE_EXEC)
