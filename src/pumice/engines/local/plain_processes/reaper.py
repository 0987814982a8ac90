"""Kills plain processes: with their container, and when the engine dies.

On Linux the shim of each container does that, the process above the container. It is a fork of the engine and the
parent of the container's first process. Processes that lose their parent, whatever session, group or environment they
have, become its children, because it is a subreaper. It ends them when the first process ends, when it gets the signal
END, and when the engine dies, however that happens.

Elsewhere the processes of a container form a process group; those that leave it are found, where there is a /proc, by
an environment variable, the mark, that they inherit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from pumice.engines.local.sandbox import kernel_files, syscalls
from pumice.engines.local.sandbox.init.exec_command import default_signals
from pumice.engines.local.sandbox.python_start import python_start
from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS, ExhaustedError

_ROUNDS = 5
AVAILABLE = sys.platform == "linux"
# Programs do not use it, and no user sends it to a pod.
END = signal.SIGRTMIN + 3 if AVAILABLE else signal.SIGKILL
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_HIGHEST_DESCRIPTOR = 1 << 16
# A process of another user (set-uid) cannot be killed; do not wait for it longer than this.
_PATIENCE = 5.0
_PAUSE = 0.005


def fork_below(register: Callable[[], None]) -> None:
    """Called in a new process before it becomes a command: returns only in its child, which becomes it instead.

    Between fork and exec, so it makes system calls only, and takes no lock that another thread may hold.
    """
    engine = os.getppid()
    register()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    syscalls.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    first = os.fork()
    if first == 0:
        os.setsid()
        kernel_files.prefer_for_oom()
        return
    try:
        # A reader of the output to its end, or of exec, must not wait for this process.
        os.closerange(0, _HIGHEST_DESCRIPTOR)
        syscalls.prctl(_PR_SET_PDEATHSIG, END)
        if os.getppid() != engine:
            os.kill(os.getpid(), END)
        _serve(first)
    finally:
        os._exit(128)


def _serve(first: int) -> NoReturn:
    """Pass signals on to the first process until it ends, then end all others and exit as it did."""
    while True:
        number = signal.sigwaitinfo(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}).si_signo
        if number == END:
            os.kill(first, signal.SIGKILL)
        elif number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, number)
        # The status of the first process if it has ended. Others that have ended are orphans.
        status = None
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == first:
                    status = ended[1]
        if status is not None:
            _end_all()
            _exit_as(status)


def _end_all() -> None:
    """A process that is killed leaves its children to this one, so that the next round finds them."""
    end = time.monotonic() + _PATIENCE
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < end:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_PAUSE)


def _children() -> list[int]:
    own = os.getpid()
    try:
        return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]
    except OSError:
        # Not every kernel has this file.
        return _children_of_all().get(own, [])


def descendants(roots: Iterable[int]) -> dict[int, list[int]]:
    """Return the descendants of each root, without the root itself."""
    children, found = _children_of_all(), dict[int, list[int]]()
    for root in roots:
        below = list(children.get(root, ()))
        for pid in below:
            below.extend(children.get(pid, ()))
        found[root] = below
    return found


def _children_of_all() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    # Not "[0-9]*/stat": pathlib raises ProcessLookupError if a process ends while it looks whether the file exists.
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name in parentheses may contain anything.
            parent = int((directory / "stat").read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(directory.name))
    return children


def _exit_as(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def main() -> None:
    """Reads lines "+GROUP MARK" (the mark in hexadecimal digits) and "-GROUP", and "=" when the job has ended.

    At the end of the input, which is also the end of the engine, kills every group that is left.
    """
    groups: dict[int, str] = {}
    for line in sys.stdin:
        group, _, digits = line[1:].strip().partition(" ")
        if line[0] == "=":
            groups.clear()
        elif line[0] == "+":
            groups[int(group)] = os.fsdecode(bytes.fromhex(digits))
        else:
            groups.pop(int(group), None)
    for number, mark in groups.items():
        kill_all(number, mark)


class Reaper:
    """A process that outlives the engine for a moment. PR_SET_PDEATHSIG would not reach grandchildren."""

    def __init__(self, lock: int) -> None:
        """The lock shows that a process of the job lives, so it must outlive the engine."""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                python_start("plain_processes.reaper"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(lock,),
                cwd="/",
                start_new_session=True,
            )
        except BlockingIOError as error:
            raise ExhaustedError(NO_PROCESS) from error
        if self._process.stdin is None:
            raise AssertionError("stdin=PIPE")
        self._pipe = self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    def add_self(self, mark: str, cpus: Sequence[int] = ()) -> None:
        """Called by a new process before it becomes the command, because the engine may die right after."""

        def register() -> None:
            # Python has reset SIGPIPE already, and the reaper may be dead.
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            self._send(f"+{os.getpid()} {os.fsencode(mark).hex()}\n")

        if AVAILABLE:
            if cpus:
                os.sched_setaffinity(0, cpus)
            fork_below(register)
        else:
            register()
        if os.isatty(0):
            # The terminal of a command that a user runs in a pod.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        default_signals()

    def remove(self, group: int) -> None:
        self._send(f"-{group}\n")

    def close(self) -> None:
        """Every group has ended, and its number may have been reused."""
        self._send("=\n")
        self._pipe.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        # If the reaper was killed, the job goes on without it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe.fileno(), line.encode())


def kill_group(group: int) -> None:
    """Kill all processes of a container; macOS answers EPERM where only zombies are left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if AVAILABLE:
            os.kill(group, END)
        else:
            os.killpg(group, signal.SIGKILL)


def kill_all(group: int, mark: str) -> None:
    """Kill the group and all processes with the mark. Further rounds find those forked during the search."""
    if AVAILABLE:
        return
    kill_group(group)
    variable = os.fsencode(mark)
    for _ in range(_ROUNDS):
        found = False
        # Without /proc nothing is found. Zombies have no environment.
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if variable in (directory / "environ").read_bytes().split(b"\0"):
                    found = True
                    os.kill(int(directory.name), signal.SIGKILL)
        if not found:
            return
