"""Between fork and exec: how a new process turns itself into the command of a container.

Errors are reported through a pipe that exec closes: an empty pipe means that the command runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import exec_command, privileges
from pumice.engines.local.sandbox.init.privileges import Limits
from pumice.engines.local.sandbox.net import job_network
from pumice.engines.local.sandbox.rootfs import container_root
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.rootfs.mount_targets import Tree
from pumice.engines.local.sandbox.sandbox_errors import INTERNAL, WORKING_DIRECTORY, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec

_OF_CONTAINER = syscalls.NEWNS | syscalls.NEWCGROUP | syscalls.NEWNET | syscalls.NEWUTS | syscalls.NEWIPC
_STANDARD = (0, 1, 2)
_HIGHEST_DESCRIPTOR = 1 << 30


class Streams(NamedTuple):
    stdout: int
    stderr: int
    errors: int


@dataclass(frozen=True, slots=True)
class ContainerSetup:
    """Everything that a new process needs to become a container."""

    spec: ContainerSpec
    job: JobFilesystem
    namespaces: tuple[int, ...]
    files: list[str]
    limits: Limits
    all_processes: int | None = None  # that the job may have, if no control group limits those of the pod


@dataclass(frozen=True, slots=True)
class Inherited:
    """Descriptors that were opened for a new process: its control groups, and the trees that it mounts."""

    groups: Sequence[int] = ()
    trees: Sequence[Tree] = ()

    @property
    def descriptors(self) -> list[int]:
        return [*self.groups, *(tree for tree in self.trees if not isinstance(tree, OSError))]

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def become_container(setup: ContainerSetup, streams: Streams, inherited: Inherited) -> NoReturn:
    def enter() -> None:
        job_network.enter(setup.namespaces)
        for namespace in setup.namespaces:
            os.close(namespace)
        syscalls.unshare(syscalls.NEWNS | syscalls.NEWCGROUP)
        parts = container_root.enter_root(setup.spec, setup.job, setup.files, inherited.trees)
        _close_descriptors(streams)
        if setup.spec.root.read_only:
            _make_working_directory(setup.spec.cwd)
            container_root.make_read_only(parts)

    needed = [*setup.namespaces, *inherited.descriptors]
    _become(setup, streams, needed, lambda: _join(inherited, enter), (setup.spec.argv, setup.spec.env))


def become_exec(
    setup: ContainerSetup,
    streams: Streams,
    inherited: Inherited,
    container: int,
    command: tuple[Sequence[str], Mapping[str, str]],
) -> NoReturn:
    """Become a further command in a container; `container` is the pidfd of its first process."""

    def enter() -> None:
        syscalls.setns(container, _OF_CONTAINER)

    _become(setup, streams, [container, *inherited.descriptors], lambda: _join(inherited, enter), command)


def _join(inherited: Inherited, enter: Callable[[], None]) -> None:
    for group in inherited.groups:
        os.write(group, b"0")
        os.close(group)
    enter()


def _become(
    setup: ContainerSetup,
    streams: Streams,
    needed: Collection[int],
    enter: Callable[[], None],
    command: tuple[Sequence[str], Mapping[str, str]],
) -> NoReturn:
    """Descriptors are paths (/proc/self/fd/N): each is closed before the job's own paths are looked up."""
    try:
        _close_descriptors([*streams, *needed])
        exec_command.default_signals()
        enter()
        _close_descriptors(streams)
        _prepare(setup, streams)
        exec_command.execute(*command)
    except StartError as error:
        report = [error.kind, error.message]
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's loop
        report = [INTERNAL, f"{type(error).__name__}: {error}"]
    os.write(streams.errors, json.dumps(report).encode()[:60_000])
    os._exit(128)


def _prepare(setup: ContainerSetup, streams: Streams) -> None:
    """Set up session, streams, working directory and privileges."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (streams.stdout, 1), (streams.stderr, 2)):
        os.dup2(source, target)
    _close_descriptors([streams.errors])
    cwd = setup.spec.cwd or "/"
    _make_working_directory(cwd)
    if setup.all_processes is not None:
        privileges.limit_processes(setup.all_processes)
    privileges.restrict(setup.spec, setup.limits, all_users=setup.job.all_users)
    try:
        os.chdir(cwd)
        syscalls.check_working_directory()
    except OSError as error:
        raise StartError(WORKING_DIRECTORY, f"{cwd}: not usable as working directory: {error.strerror}") from error


def _close_descriptors(kept: Iterable[int]) -> None:
    first = 0
    for number in (*sorted({*_STANDARD, *kept}), _HIGHEST_DESCRIPTOR):
        if first < number:
            # An empty range that ends at 0 would close all of them.
            os.closerange(first, number)
        first = number + 1


def _make_working_directory(cwd: str) -> None:
    try:
        os.makedirs(cwd or "/", exist_ok=True)
    except OSError as error:
        reason = error.strerror
        raise StartError(WORKING_DIRECTORY, f"{cwd}: the working directory cannot be created: {reason}") from error
