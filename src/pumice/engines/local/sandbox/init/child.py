"""Between fork and exec: how a new process turns itself into the command of a container.

Errors are reported through a pipe that exec closes: an empty pipe means that the command runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import sys
import termios
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, NoReturn

from pumice.engines.local.rpc.wire import Wire
from pumice.engines.local.sandbox import kernel_files, protocol, syscalls, tree_stream
from pumice.engines.local.sandbox.init import exec_command, privileges
from pumice.engines.local.sandbox.init.privileges import Limits
from pumice.engines.local.sandbox.net import job_network
from pumice.engines.local.sandbox.rootfs import container_root
from pumice.engines.local.sandbox.rootfs.container_root import Parts
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.sandbox_errors import (
    COPY,
    COPY_DENIED,
    INTERNAL,
    TERMINAL,
    WORKING_DIRECTORY,
    StartError,
)
from pumice.engines.local.sandbox.specs import ContainerSpec
from pumice.engines.local.sandbox.tree_stream import Copy

_OF_CONTAINER = syscalls.NEWNS | syscalls.NEWCGROUP | syscalls.NEWNET | syscalls.NEWUTS | syscalls.NEWIPC
_STANDARD = (0, 1, 2)


class Streams(NamedTuple):
    """Descriptors for a new process; `errors` is the pipe for why the command does not run.

    With `terminal` it gets a terminal of the container instead of streams, whose other end goes to this socket.
    """

    stdout: int
    stderr: int
    errors: int
    stdin: int | None = None  # None: there is no input
    terminal: int | None = None
    size: tuple[int, int] = (0, 0)  # of the terminal: lines and columns

    @classmethod
    def choose(cls, given: Sequence[int], errors: int, size: Sequence[int]) -> Streams:
        """Return the streams for descriptors that came with a request; with a size, one of them is for a terminal."""
        match given:
            case [stdin, stdout, stderr]:
                return cls(stdout, stderr, errors, stdin)
            case [stdout, stderr]:
                return cls(stdout, stderr, errors)
            case [channel] if size:
                return cls(channel, channel, errors, terminal=channel, size=(size[0], size[1]))
            case [output]:
                return cls(output, output, errors)
        raise ValueError(f"{len(given)} descriptors")

    @property
    def descriptors(self) -> list[int]:
        found = (self.stdin, self.stdout, self.stderr, self.errors, self.terminal)
        return [each for each in found if each is not None]


class Setup(NamedTuple):
    """What a new process knows of its container. `groups` are descriptors of the control groups that it joins."""

    spec: ContainerSpec
    job: JobFilesystem
    limits: Limits
    groups: Sequence[int]
    all_processes: int | None  # that the job may have, if no control group limits those of the pod


def become_container(setup: Setup, streams: Streams, namespaces: Sequence[int], parts: Parts) -> NoReturn:
    def enter() -> None:
        job_network.enter(namespaces)
        for namespace in namespaces:
            os.close(namespace)
        syscalls.unshare(syscalls.NEWNS | syscalls.NEWCGROUP)
        mount_points = container_root.enter_root(setup.spec, setup.job, parts)
        exec_command.close_others(streams.descriptors)
        if setup.spec.root.read_only:
            _make_working_directory(setup.spec.cwd)
            container_root.make_read_only(mount_points)

    needed = [*namespaces, parts.memory, *(tree for tree in parts.trees if not isinstance(tree, OSError))]
    _become(setup, streams, needed, enter, (setup.spec.argv, setup.spec.env))


def become_exec(
    setup: Setup, streams: Streams, container: int, command: tuple[Sequence[str], Mapping[str, str]]
) -> NoReturn:
    """Become a further command in a container; `container` is the pidfd of its first process."""

    def enter() -> None:
        syscalls.setns(container, _OF_CONTAINER)

    _become(setup, streams, [container], enter, command)


def become_copy(setup: Setup, streams: Streams, container: int, copy: Copy) -> NoReturn:
    """Copy files of a container, with exactly the rights of its commands; images need no program for it.

    Unlike a process that execs soon, this one keeps the launcher's memory: it must not be readable from the container.
    """

    def enter() -> None:
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        syscalls.setns(container, _OF_CONTAINER)

    def act() -> NoReturn:
        privileges.drop_as_exec_does(setup.spec, setup.limits, all_users=setup.job.all_users)
        try:
            code = copy.run(0, 1, 2)
        except (OSError, tree_stream.StreamError) as error:
            kind = COPY_DENIED if tree_stream.is_denied(error) else COPY
            raise StartError(kind, tree_stream.reason_of(error)) from error
        os._exit(code)

    _become(setup, streams, [container], enter, act)


def _become(
    setup: Setup,
    streams: Streams,
    needed: Collection[int],
    enter: Callable[[], None],
    command: tuple[Sequence[str], Mapping[str, str]] | Callable[[], NoReturn],
) -> NoReturn:
    """Descriptors are paths (/proc/self/fd/N): each is closed before the job's own paths are looked up.

    A module that was not loaded so far would be one of the container.
    """
    try:
        sys.meta_path.clear()
        sys.path.clear()
        exec_command.close_others([*streams.descriptors, *setup.groups, *needed])
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        kernel_files.prefer_for_oom()
        for group in setup.groups:
            os.write(group, b"0")
            os.close(group)
        enter()
        exec_command.close_others(streams.descriptors)
        _prepare(setup, streams)
        if callable(command):
            command()
        exec_command.execute(*command)
    except StartError as error:
        report = [error.kind, error.message]
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's loop
        report = [INTERNAL, f"{type(error).__name__}: {error}"]
    os.write(streams.errors, json.dumps(report).encode()[:60_000])
    os._exit(128)


def _prepare(setup: Setup, streams: Streams) -> None:
    """Set up session, streams, working directory and privileges."""
    os.setsid()
    stdin = os.open("/dev/null", os.O_RDONLY) if streams.stdin is None else streams.stdin
    for source, target in ((stdin, 0), (streams.stdout, 1), (streams.stderr, 2)):
        os.dup2(source, target)
    exec_command.close_others([streams.errors, *([] if streams.terminal is None else [streams.terminal])])
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
    if streams.terminal is not None:
        _open_terminal(streams.terminal, streams.size)


def _open_terminal(channel: int, size: tuple[int, int]) -> None:
    """Make a terminal of the container the controlling one, with the rights of the container only."""
    try:
        other_end, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    except OSError as error:
        raise StartError(TERMINAL, f"the container cannot open a terminal: /dev/ptmx: {error.strerror}") from error
    with socket.socket(fileno=channel) as connection:
        Wire(connection, protocol.FORMAT).send({}, [other_end])
    for target in _STANDARD:
        os.dup2(terminal, target)
    os.close(terminal)


def _make_working_directory(cwd: str) -> None:
    try:
        os.makedirs(cwd or "/", exist_ok=True)
    except OSError as error:
        reason = error.strerror
        raise StartError(WORKING_DIRECTORY, f"{cwd}: the working directory cannot be created: {reason}") from error
